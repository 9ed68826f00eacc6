//! Build, test and measure symmem.

fn main() {}
