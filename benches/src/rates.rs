//! Time to bandwidth, as nccl-tests defines it; 1 GB is 10⁹ bytes.

use crate::case::Case;
use symmem::Collective;

/// Bandwidths in GB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    /// Size over time.
    pub(crate) algbw_gbps: f64,
    /// What one link direction of a rank carries at least, whatever the algorithm.
    pub(crate) busbw_gbps: f64,
}

/// What `time_us` means for a case; `None` if that is no number.
pub(crate) fn rates(case: &Case, time_us: f64) -> Option<Rates> {
    let algbw_gbps = case.bytes_total() as f64 / time_us / 1e3;
    let busbw_gbps = algbw_gbps * bus_factor(case.collective, case.n_ranks);
    (time_us > 0.0 && algbw_gbps.is_finite()).then_some(Rates { algbw_gbps, busbw_gbps })
}

fn bus_factor(collective: Collective, n_ranks: u32) -> f64 {
    let n = f64::from(n_ranks);
    match collective {
        Collective::AllReduce => 2.0 * (n - 1.0) / n,
        Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => (n - 1.0) / n,
        Collective::Broadcast => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use symmem::{Dtype, Op};

    fn case(collective: Collective, count: u64, n_ranks: u32) -> Case {
        let op = (collective == Collective::AllReduce).then_some(Op::Sum);
        Case { collective, dtype: Dtype::F32, op, count, n_ranks }
    }

    #[test]
    fn follows_nccl_tests() {
        let table = [
            // 1 GB in 1 ms: 1000 GB/s.
            (case(Collective::AllReduce, 250_000_000, 2), 1000.0, 1000.0, 1000.0),
            (case(Collective::AllReduce, 250_000_000, 8), 1000.0, 1000.0, 1750.0),
            // 4 × 1 MB in 8 µs: 500 GB/s over all.
            (case(Collective::AllGather, 250_000, 4), 8.0, 500.0, 375.0),
            (case(Collective::AllToAll, 250_000, 4), 8.0, 500.0, 375.0),
            (case(Collective::Broadcast, 1_000_000, 4), 8.0, 500.0, 500.0),
            (case(Collective::AllReduce, 1, 1), 4.0, 0.001, 0.0),
        ];
        for (case, time_us, algbw, busbw) in table {
            let found = rates(&case, time_us).expect("finite");
            assert!(
                (found.algbw_gbps - algbw).abs() < 1e-9 && (found.busbw_gbps - busbw).abs() < 1e-9,
                "{found:?}"
            );
        }
    }

    #[test]
    fn is_none_where_it_would_be_no_number() {
        for time_us in [0.0, -1.0, f64::NAN] {
            assert_eq!(rates(&case(Collective::AllReduce, 1, 2), time_us), None);
        }
        assert_eq!(rates(&case(Collective::AllReduce, 0, 2), 0.0), None);
    }
}
