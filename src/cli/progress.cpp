#include "src/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "exp/base/printable.h"
#include "exp/base/utf8.h"
#include "src/cli/terminal.h"

namespace xp::cli {
namespace {

double Since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

std::string ShortName(const std::string& name) {
  return name.starts_with("loss_") ? name.substr(5) : name;
}

// A NaN's sign says nothing.
double Signless(double loss) { return std::isnan(loss) ? std::abs(loss) : loss; }

}  // namespace

// The first start on a GPU looks for the fastest plans, which may take a minute.
void Progress::OnPreparing(const std::string& phase) {
  if (!o_.terminal) return;
  Live(phase == "steps" ? "getting ready: steps (kernels, plans, memory)"
                        : "getting ready: " + phase);
}

void Progress::OnStart(const train::StartEvent& e) {
  start_ = e;
  began_ = speed_from_ = last_shown_ = Clock::now();
  Line(fmt::format(
      "training on {}: {} images, {} for validation, {:.1f} M parameters, {:.2f} GiB planned",
      e.device, e.train_images, e.val_images, static_cast<double>(e.parameters) / 1e6,
      static_cast<double>(e.planned_bytes) / (1u << 30)));
  double ready = 0;
  std::string phases;
  for (const auto& [name, seconds] : e.phases) {
    ready += seconds;
    phases += fmt::format("{}{} {:.1f}", phases.empty() ? "" : ", ", name, seconds);
  }
  if (ready >= 1) Line(fmt::format("ready after {:.1f} s ({})", ready, phases));
  if (e.start_step > 0)
    Line(fmt::format("going on at epoch {}, step {}", e.start_epoch + 1, e.start_step));
}

// "loss 0.812 (objectness 0.31 ...)  lr 0.01  12.3 img/s  data 2%  54 C  eta 01:20"
std::string Progress::Facts(const train::StepEvent& e) {
  if (double window = Since(speed_from_); window >= 0.5 || images_per_second_ == 0) {
    images_per_second_ = static_cast<double>(images_) / std::max(window, 1e-9);
    images_ = 0;
    speed_from_ = Clock::now();
  }
  std::string text = fmt::format("loss {:.4f}", Signless(e.total));
  if (!o_.terminal && e.losses.size() > 1) {
    std::string terms;
    for (const auto& [name, value] : e.losses)
      terms +=
          fmt::format("{}{} {:.4f}", terms.empty() ? "" : ", ", ShortName(name), Signless(value));
    text += " (" + terms + ")";
  }
  text += fmt::format("  lr {:.3g}  {:.1f} img/s", e.lr, images_per_second_);
  if (o_.temperature) {
    if (auto degrees = o_.temperature()) text += fmt::format("  {:.0f} C", *degrees);
  }
  int64_t total = start_.steps_per_epoch * start_.max_epochs;
  int64_t done = e.step + 1 - first_step_, left = total - e.step - 1;
  if (done > 0)
    text += "  eta " +
            DurationText(Since(began_) / static_cast<double>(done) * static_cast<double>(left));
  return text;
}

void Progress::OnStep(const train::StepEvent& e) {
  if (first_step_ < 0) first_step_ = e.step;
  images_ += e.images;
  int64_t in_epoch = e.step_in_epoch + 1;
  if (o_.terminal) {
    if (Since(last_shown_) < 0.1 && in_epoch != start_.steps_per_epoch) return;
    last_shown_ = Clock::now();
    Live(fmt::format("epoch {}/{} {} {}/{}  {}", e.epoch + 1, start_.max_epochs,
                     Bar(in_epoch, start_.steps_per_epoch, 20), in_epoch, start_.steps_per_epoch,
                     Facts(e)));
  } else if (in_epoch % std::max(o_.interval, 1) == 0) {
    Line(fmt::format("epoch {}/{} step {}/{}  {}", e.epoch + 1, start_.max_epochs, in_epoch,
                     start_.steps_per_epoch, Facts(e)));
  }
}

// A validation set can take longer than the epoch.
void Progress::OnEvaluation(const train::EvaluationEvent& e) {
  if (!evaluation_) evaluation_.emplace(o_.terminal);
  const std::optional<std::string> pace = evaluation_->Look(e.images, e.of_all, " img/s");
  if (!pace) return;
  const std::string head = fmt::format("epoch {}/{} evaluating", e.epoch + 1, start_.max_epochs);
  if (o_.terminal)
    Live(fmt::format("{} {} {}/{}  {}", head, Bar(e.images, e.of_all, 20), e.images, e.of_all,
                     *pace));
  else
    Line(fmt::format("{} {}/{}  {}", head, e.images, e.of_all, *pace));
}

void Progress::OnEpoch(const train::EpochEvent& e) {
  evaluation_.reset();
  std::string text =
      fmt::format("epoch {}/{}  loss {:.4f}", e.epoch + 1, start_.max_epochs, Signless(e.total));
  for (const auto& [name, value] : e.metrics) {
    if (name == "bbox_mAP" || name == "bbox_mAP_50" || name == "top1" || name == "top5")
      text += fmt::format("  {} {:.4f}", name, value);
  }
  double share = e.train_seconds > 0 ? 100 * e.data_seconds / e.train_seconds : 0;
  text += fmt::format("  {:.1f} img/s  train {} (waited {:.0f}% for data)", e.images_per_second,
                      DurationText(e.train_seconds), share);
  if (e.eval_seconds > 0) text += fmt::format("  eval {}", DurationText(e.eval_seconds));
  Line(text);
  images_ = 0;
  speed_from_ = Clock::now();
}

void Progress::OnCheckpoint(const train::CheckpointEvent& e) {
  Line(fmt::format("saved {} ({:.1f} MiB, {})", e.path, static_cast<double>(e.bytes) / (1 << 20),
                   e.hash.Hex().substr(0, 12)));
}

void Progress::OnWarning(const train::WarningEvent& e) {
  // A thousand names on one line would hide the rest.
  constexpr size_t kMost = 600;
  const bool cut = e.message.size() > kMost && e.message.find('\n') == std::string::npos;
  const std::string shown =
      cut ? ValidUtf8(Utf8Head(e.message, kMost)) + "... (`exp show --json` has all of it)"
          : e.message;
  Line(fmt::format("warning [{}]: {}", e.code, Printable(shown, true)));
}

void Progress::OnEnd(const train::EndEvent& e) {
  const char* word = e.state == train::EndState::kFinished ? "finished"
                     : e.state == train::EndState::kFailed ? "failed"
                                                           : "interrupted";
  Line(fmt::format("{} after {}{}", word, DurationText(Since(began_)),
                   e.reason.empty() ? "" : ": " + e.reason));
}

// Not fmt::print, which throws where nothing can be written: training goes on without being
// watched.
void Progress::Line(const std::string& text) {
  std::fputs(((live_ ? kClearLine : "") + text + "\n").c_str(), o_.out);
  live_ = false;
  std::fflush(o_.out);
}

void Progress::Clear() {
  if (!std::exchange(live_, false)) return;
  std::fputs(kClearLine, o_.out);
  std::fflush(o_.out);
}

void Progress::Live(const std::string& text) {
  const auto shown = static_cast<size_t>(std::max(o_.columns - 1, 20));
  std::fputs((kClearLine + text.substr(0, shown)).c_str(), o_.out);
  std::fflush(o_.out);
  live_ = true;
}

}  // namespace xp::cli
