#include "src/cli/tta_flags.h"

#include <charconv>

#include "exp/base/error.h"

namespace xp::cli {

void AddTtaFlags(Command command, TtaFlags& flags) {
  command.AddFlag("--tta-flip", flags.flip, "each image as it is and mirrored");
  command.AddOption("--tta-scales", flags.scales, "each image at these sizes, LONGxSHORT,...")
      .SplitAt(',');
}

train::TestTimeAugmentation ReadTta(const TtaFlags& flags) {
  train::TestTimeAugmentation tta{.flip = flags.flip};
  for (const std::string& text : flags.scales) {
    const char* end = text.data() + text.size();
    data::ImageScale scale;
    auto first = std::from_chars(text.data(), end, scale.width);
    bool good = first.ec == std::errc() && first.ptr != end && *first.ptr == 'x';
    if (good) {
      auto second = std::from_chars(first.ptr + 1, end, scale.height);
      good = second.ec == std::errc() && second.ptr == end;
    }
    if (!good || scale.width < 1 || scale.height < 1 || scale.width > 65535 ||
        scale.height > 65535) {
      throw UsageError({.what = "`" + text + "` is not a scale",
                        .where = "--tta-scales",
                        .expected = "LONGxSHORT in pixels, such as 1333x800"});
    }
    tta.scales.push_back(scale);
  }
  return tta;
}

}  // namespace xp::cli
