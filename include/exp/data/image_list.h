// Data sets for classification: a folder with a folder of images a class, or a list of files with
// labels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "exp/data/coco.h"

namespace xp::data {

struct ImageList {
  std::string path;                  // of the folder or the list, for messages
  std::string root;                  // that files are relative to
  std::vector<std::string> classes;  // in label order
  std::vector<std::string> files;
  std::vector<int32_t> labels;    // of each file, index into classes
  std::vector<Problem> problems;  // images that are left out
};

// ImageNet's layout: root/<class>/.../<image>, classes and files in the order of their bytes; links
// to folders are followed, but for those that go round. Hidden files and folders (`._a.jpg`,
// `.ipynb_checkpoints`) are passed over, and files that don't end in .jpg, .jpeg, .png or .webp (in
// any case); those of another image format and images beside the class folders are problems.
// `classes`: only these folders, in this order. Throws UsageError when there is no class, a class
// has no image or a folder of `classes` is missing.
ImageList ListImageFolder(const std::filesystem::path& root,
                          const std::vector<std::string>& classes = {});

// A COCO file (.json): an image's label is the category of its annotations, which need no boxes;
// images without one are problems, those of other categories than `classes` are passed over, two
// categories in one image or a class that is no category are a UsageError. Or a text file with
// `<file> <label>` a line; the label is last, a number from 0 or a name of `classes`, which may
// have spaces. Empty lines and lines that begin with # are passed over. Without `classes`, labels
// are numbers and classes are named after them. Throws UsageError with file:line.
ImageList ReadImageList(const std::filesystem::path& list, const std::filesystem::path& root,
                        const std::vector<std::string>& classes = {});

// The images that an annotation file names, in its order, whether they can be used or not: each
// `file_name` of a COCO file's `images`, or of a text list each file with a label. A file of
// another kind, or one that is damaged, names those that come before what can't be read: whoever
// trains from it says what is wrong.
std::vector<std::string> ImageNames(const std::filesystem::path& ann_file,
                                    const std::vector<std::string>& classes = {});

}  // namespace xp::data
