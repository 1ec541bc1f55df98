#include "src/graph/cuda/plan_maker.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "exp/base/resources.h"
#include "src/graph/cuda/own_conv.h"

namespace xp::graph::cuda {
namespace {

constexpr size_t kMaxThreads = 15;
constexpr size_t kAhead = 32;  // problems whose plans are held at once
// Engines that are compiled when a plan is made (epilogues) may take seconds each: after that long
// a variant is content with those it has.
constexpr std::chrono::milliseconds kEnoughBuilding{800};

// cuDNN's handle serves one thread at a time; making plans of a graph doesn't use it.
std::mutex& HandleMutex() {
  static std::mutex mutex;
  return mutex;
}

void AddCandidates(const std::shared_ptr<ConvTarget>& target, const ConvProblem& problem,
                   const ConvVariant& variant, size_t engines, cudaStream_t stream, bool first_only,
                   MadePlans* made) {
  using Clock = std::chrono::steady_clock;
  std::unique_ptr<ConvGraph> graph;
  std::vector<std::string> names;
  {
    std::lock_guard lock(HandleMutex());
    graph = ConvGraph::Create(target, variant.problem, &made->why);
    if (!graph) return;
    names = graph->Engines();
  }
  size_t built = 0;
  Clock::time_point start = Clock::now();
  for (const std::string& name : names) {
    if (built > 0 && (built == engines || first_only || Clock::now() - start > kEnoughBuilding)) {
      return;
    }
    std::unique_ptr<ConvPlan> plan = graph->Build(name, &made->why);
    if (!plan || plan->workspace_bytes() > kMaxWorkspace) continue;
    ++built;
    made->candidates.push_back(
        {variant.name + ":" + name, Complete(variant, problem, std::move(plan), stream)});
  }
}

// Our own kernels for a problem: all of them, or the one that `choice` names.
void AddOwn(const ConvProblem& problem, const std::string& choice, cudaStream_t stream,
            MadePlans* made) {
  for (OwnConv& own : OwnConvs(problem, stream)) {
    if (choice.empty() || choice == own.choice) {
      made->candidates.push_back({own.choice, std::move(own.plan)});
    }
  }
}

// An engine that can't be asked for by its number may still be found among those that are listed.
std::unique_ptr<ConvPlan> BuildNamed(const std::shared_ptr<ConvTarget>& target,
                                     const ConvProblem& problem, const std::string& engine,
                                     std::string* why) {
  std::unique_lock lock(HandleMutex());
  std::unique_ptr<ConvGraph> graph = ConvGraph::Create(target, problem, why);
  if (!graph) return nullptr;
  bool proposed = graph->Propose(engine, why);
  lock.unlock();
  if (proposed) {
    if (auto plan = graph->Build(engine, why)) return plan;
  }
  lock.lock();
  if (graph->Engines().empty()) return nullptr;
  lock.unlock();
  return graph->Build(engine, why);
}

void AddNamed(const std::shared_ptr<ConvTarget>& target, const ConvProblem& problem,
              const std::string& choice, const CompiledPlans* compiled, cudaStream_t stream,
              MadePlans* made) {
  size_t colon = choice.find(':');
  made->why = "unknown variant";
  if (choice.compare(0, colon, "own") == 0) return AddOwn(problem, choice, stream, made);
  for (const ConvVariant& variant : VariantsOf(problem)) {
    if (choice.compare(0, colon, variant.name) != 0) continue;
    std::unique_ptr<ConvPlan> plan;
    if (std::string json = compiled ? compiled->Find(problem.Key(), choice) : ""; !json.empty()) {
      plan = ConvGraph::Load(target, variant.problem, json, &made->why);
    }
    if (!plan) plan = BuildNamed(target, variant.problem, choice.substr(colon + 1), &made->why);
    if (plan) {
      made->candidates.push_back({choice, Complete(variant, problem, std::move(plan), stream)});
    }
    return;
  }
}

}  // namespace

MadePlans MakePlans(const std::shared_ptr<ConvTarget>& target, const ConvProblem& problem,
                    const std::string& choice, size_t engines, cudaStream_t stream, bool first_only,
                    const CompiledPlans* compiled) {
  MadePlans made;
  try {
    if (!choice.empty()) {
      AddNamed(target, problem, choice, compiled, stream, &made);
      return made;
    }
    for (const ConvVariant& variant : VariantsOf(problem)) {
      AddCandidates(target, problem, variant, engines, stream, first_only, &made);
      if (first_only && !made.candidates.empty()) return made;
    }
    AddOwn(problem, choice, stream, &made);
  } catch (const std::exception& e) {
    made.why = e.what();
  }
  return made;
}

PlanMaker::PlanMaker(std::shared_ptr<ConvTarget> target, size_t engines, cudaStream_t stream,
                     CompiledPlans compiled)
    : target_(std::move(target)),
      engines_(engines),
      stream_(stream),
      compiled_(std::move(compiled)) {
  if (cudaGetDevice(&device_) != cudaSuccess) device_ = -1;  // plans for a described device
}

PlanMaker::~PlanMaker() { Stop(); }

void PlanMaker::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  jobs_.clear();
  held_ = 0;
  stop_ = false;
}

void PlanMaker::Start(std::vector<Request> requests) {
  Stop();
  for (Request& request : requests) jobs_.push_back({std::move(request), State::kWaiting, {}});
  auto cores = static_cast<size_t>(std::max(2, UsableCpus()));
  size_t threads = std::min({cores - 1, kMaxThreads, jobs_.size()});
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

PlanMaker::Job* PlanMaker::NextJob() {
  if (held_ >= kAhead) return nullptr;
  auto waits = [](const Job& job) { return job.state == State::kWaiting; };
  auto job = std::find_if(jobs_.begin(), jobs_.end(), waits);
  return job == jobs_.end() ? nullptr : &*job;
}

MadePlans PlanMaker::Make(const Request& request) const {
  return MakePlans(target_, request.problem, request.choice, engines_, stream_, false, &compiled_);
}

void PlanMaker::Work() {
  if (device_ >= 0) cudaSetDevice(device_);  // a new thread begins with device 0
  std::unique_lock lock(mutex_);
  while (true) {
    Job* job = nullptr;
    changed_.wait(lock, [&] { return stop_ || (job = NextJob()) != nullptr; });
    if (stop_) return;
    job->state = State::kBegun;
    ++held_;
    Request request = job->request;
    lock.unlock();
    MadePlans made = Make(request);
    lock.lock();
    job->made = std::move(made);
    job->state = State::kMade;
    changed_.notify_all();
  }
}

MadePlans PlanMaker::Take(const Request& request) {
  const std::string key = request.problem.Key();
  auto is_it = [&](const Job& job) {
    return job.state != State::kTaken && job.request.choice == request.choice &&
           job.request.problem.Key() == key;
  };
  std::unique_lock lock(mutex_);
  auto job = std::find_if(jobs_.begin(), jobs_.end(), is_it);
  if (job == jobs_.end() || job->state == State::kWaiting) {
    if (job != jobs_.end()) job->state = State::kTaken;
    lock.unlock();
    return Make(request);
  }
  changed_.wait(lock, [&] { return job->state == State::kMade; });
  MadePlans made = std::move(job->made);
  job->state = State::kTaken;
  --held_;
  changed_.notify_all();
  return made;
}

}  // namespace xp::graph::cuda
