#include "exp/base/system_advice.h"

#include <cerrno>

namespace xp {
namespace {

// Whatever was to be done with the file.
std::string AnyAdvice(int error) {
  switch (error) {
    case EMFILE:
      return "raise the limit of open files (`ulimit -n`)";
    case ENAMETOOLONG:
      return "choose a shorter name";
    case ELOOP:
      return "look at its symbolic links: they lead in a circle";
    case EIO:
    case ESTALE:
      return "look at the disk (`exp doctor --look`)";
    default:
      return "";
  }
}

}  // namespace

std::string WriteAdvice(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "make its folder, or choose another place";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a place that this user may write";
    case EISDIR:
    case EEXIST:
      return "choose a name that isn't taken";
    case ENOSPC:
      return "free space on the disk";
    case EDQUOT:
      return "free some of this user's quota";
    case EFBIG:
      return "raise the limit of file sizes (`ulimit -f`)";
    default:
      return AnyAdvice(error);
  }
}

std::string ReadAdvice(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "check the path";
    case EACCES:
    case EPERM:
      return "make it readable for this user";
    case EISDIR:
      return "name a file, not a folder";
    default:
      return AnyAdvice(error);
  }
}

}  // namespace xp
