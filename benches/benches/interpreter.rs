//! How many PTX instructions a second the simulated machine interprets, on one core: real kernels, and a loop of
//! arithmetic. Prints a table and one JSON line per row.

fn main() {}
