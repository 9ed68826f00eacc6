//! Real GPUs, through the CUDA driver found at run time.
