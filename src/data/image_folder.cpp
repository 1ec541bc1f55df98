// ImageNet's layout: a folder with a folder of images for each class.
#include <fmt/format.h>

#include <algorithm>

#include "exp/base/error.h"
#include "exp/base/system_advice.h"
#include "exp/base/walk.h"
#include "exp/data/image_io.h"
#include "exp/data/image_list.h"

namespace xp::data {
namespace {

namespace fs = std::filesystem;

// macOS also packs its own notes into archives, beside what was packed.
bool Hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name == "__MACOSX";
}

class FolderLister {
 public:
  FolderLister(const fs::path& root, ImageList* list) : root_(root), list_(list) {}

  // The class folders by the order of their bytes; images beside them are problems.
  std::vector<std::string> Classes() {
    std::error_code error;
    fs::directory_iterator entries(root_, error);
    if (error) Fail(root_, error, "a folder with a folder of images for each class");
    std::vector<std::string> names;
    for (const auto& entry : entries) {
      if (Hidden(entry.path())) continue;
      // A link that leads nowhere is a class whose images are gone, not none at all.
      if (entry.is_directory(error) || (!entry.exists(error) && !entry.path().has_extension()))
        names.push_back(entry.path().filename().string());
      else if (HasImageEnding(entry.path()))
        LeaveOut("image.no_class", entry.path(), "is in no class's folder");
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // The images of one class, also in folders inside and behind links to folders.
  std::vector<std::string> Images(const std::string& name) {
    std::vector<std::string> files;
    Walk walk;
    walk.enter = [](const fs::path& folder) { return !Hidden(folder); };
    walk.file = [&](const fs::directory_entry& entry) {
      if (!Hidden(entry.path())) Take(entry.path(), &files);
    };
    fs::path where;
    if (std::error_code error = WalkFiles(root_ / name, walk, &where))
      Fail(where, error, fmt::format("the folder of class `{}`", name));
    std::sort(files.begin(), files.end());
    return files;
  }

 private:
  [[noreturn]] static void Fail(const fs::path& folder, const std::error_code& error,
                                const std::string& expected) {
    throw UsageError({.what = "can't be listed: " + error.message(),
                      .where = folder.string(),
                      .expected = expected,
                      .next = ReadAdvice(error.value())});
  }

  // What isn't there (a link that leads nowhere) or is no regular file is an image that can't be
  // read, and told when it is looked at.
  void Take(const fs::path& path, std::vector<std::string>* files) {
    if (HasImageEnding(path))
      files->push_back(path.lexically_relative(root_).string());
    else if (HasOtherImageEnding(path))
      LeaveOut("image.other_format", path, "is left out");
  }

  void LeaveOut(const char* code, const fs::path& path, const char* why) {
    list_->problems.push_back({.code = code,
                               .message = fmt::format("{} {}", path.string(), why),
                               .where = path.string(),
                               .dropped = true});
  }

  const fs::path& root_;
  ImageList* list_;
};

}  // namespace

ImageList ListImageFolder(const fs::path& root, const std::vector<std::string>& classes) {
  ImageList list;
  list.path = list.root = root.string();
  FolderLister lister(root, &list);
  list.classes = classes.empty() ? lister.Classes() : classes;
  if (list.classes.empty()) {
    throw UsageError({.what = "there is no class folder",
                      .where = root.string(),
                      .expected = "a folder with a folder of images for each class",
                      .next = "labels of a flat folder's images stand in a list (`ann_file`, with "
                              "`<file> <label>` lines) or in a COCO file"});
  }
  for (size_t label = 0; label < list.classes.size(); ++label) {
    std::vector<std::string> files = lister.Images(list.classes[label]);
    if (files.empty()) {
      throw UsageError({.what = "no image is in it",
                        .where = (root / list.classes[label]).string(),
                        .expected = "files ending in .jpg, .jpeg, .png or .webp",
                        .next = "remove the folder, or list the other classes in `classes`"});
    }
    list.labels.insert(list.labels.end(), files.size(), static_cast<int32_t>(label));
    list.files.insert(list.files.end(), files.begin(), files.end());
  }
  std::sort(list.problems.begin(), list.problems.end(),
            [](const Problem& a, const Problem& b) { return a.where < b.where; });
  return list;
}

}  // namespace xp::data
