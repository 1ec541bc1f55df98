// How the threads of a training step wait for each other.
#pragma once

namespace xp::cli {

// GNU OpenMP lets threads spin for about ten milliseconds at the end of each loop before they
// sleep. When anything else wants a core (data workers, another job, a neighbour on a virtual
// machine) that stalls each of a step's hundreds of loops: a run took 6 times as long on two cores
// with a load of 7, and sleeping at once costs nothing that could be measured. The library reads
// its environment when the program is loaded, so the program starts itself once more with
// OMP_WAIT_POLICY=passive. A user's own setting stays, and commands that are run in turn don't see
// ours.
void LetThreadsSleep(int argc, char** argv);

}  // namespace xp::cli
