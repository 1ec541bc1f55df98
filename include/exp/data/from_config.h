// What a config says about data, as loader options: the one place of this module that knows config
// keys.
//
// Read are `data.samples_per_gpu`, `data.workers_per_gpu`, `data.group_by_aspect` and, of the part
// `data.train`, `data.val` or `data.test`, the keys that docs/data.md lists.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exp/data/audit.h"
#include "exp/data/class_loader.h"
#include "exp/data/coco.h"
#include "exp/data/loader.h"

namespace xp::config {
class Reader;
}

namespace xp::data {

// `part`: "train", "val" or "test". Training shuffles, mirrors half of the images and leaves out
// those without boxes unless told otherwise; the others keep every image as it is, in order.
LoaderOptions ReadLoaderOptions(const config::Reader& config, const std::string& part,
                                uint64_t seed);

// The annotations that a part names, with its own policy or the one given; `for_audit` as
// coco.h's ForAudit. UsageError as LoadCoco throws.
CocoDataset OpenDataset(const config::Reader& config, const std::string& part,
                        std::optional<Policy> policy = {}, bool for_audit = false);

// A part with its annotations, or its list where `type` is ImageFolder; under its own policy or the
// one given.
AuditPart OpenPart(const config::Reader& config, const std::string& part,
                   std::optional<Policy> policy = {}, bool for_audit = false);

// Anchors and the head's number of classes, for parts that are in `options` already.
void ReadModelForAudit(const config::Reader& config, AuditOptions* options);

// The train and val parts, the anchors of a region proposal network and the head's number of
// classes. Under each part's own policy or the one given, everything is listed.
AuditOptions ReadAuditOptions(const config::Reader& config, std::optional<Policy> policy = {});

// The images that a part's `ann_file` names, whether they are used or not; see ImageNames.
std::vector<std::string> NamedImages(const config::Reader& config, const std::string& part);

std::unique_ptr<Loader> OpenLoader(const config::Reader& config, const std::string& part,
                                   uint64_t seed);
std::unique_ptr<Loader> OpenLoader(const config::Reader& config, const AuditPart& part,
                                   uint64_t seed);

ClassLoaderOptions ReadClassLoaderOptions(const config::Reader& config, const std::string& part,
                                          uint64_t seed);
ImageList OpenImageList(const config::Reader& config, const std::string& part);

// A classification part, `type: ImageFolder`: the folder `img_prefix`, or the list `ann_file` of
// files in it.
std::unique_ptr<ClassLoader> OpenClassLoader(const config::Reader& config, const std::string& part,
                                             uint64_t seed);
std::unique_ptr<ClassLoader> OpenClassLoader(const config::Reader& config, const AuditPart& part,
                                             uint64_t seed);

}  // namespace xp::data
