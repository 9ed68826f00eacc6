//! Cases that run on the simulated machine and on GPUs alike.
