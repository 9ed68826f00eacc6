//! Tests of the plan.

use super::*;
use proptest::prelude::*;

fn problem() -> impl Strategy<Value = Problem<'static>> {
    let op = prop::sample::select(Op::ALL);
    let dtype = prop::sample::select(Dtype::ALL);
    let collective = prop::sample::select(Collective::ALL);
    let wanted = prop::option::of(prop::sample::select(Algorithm::ALL));
    let windows = (any::<bool>(), any::<bool>()).prop_map(|(input, output)| Multicast { input, output });
    let limits = (prop::option::of(1u32..1000), prop::option::of(1u32..1000));
    let wishes = (wanted, prop::option::of(windows));
    let values = (collective, 0u64..1 << 40, dtype, op, 1u32..=72, 1u32..600, wishes, limits);
    values.prop_map(|(collective, count, dtype, op, n_ranks, blocks_max, wishes, limits)| Problem {
        collective,
        count,
        dtype,
        op: collective.reduces().then_some(op),
        n_ranks,
        multicast: wishes.1,
        capabilities: Capabilities {
            sm: 90,
            blocks_max: [blocks_max; Algorithm::ALL.len()],
            algorithm: wishes.0,
            ctas: limits.0,
            threads: limits.1,
            tuning: TuningTable::built_in(),
        },
    })
}

proptest! {
    /// Every plan is resident, inside DevBase, and explains itself.
    #[test]
    fn plans_are_launchable(problem in problem()) {
        let plan = plan(&problem).expect("every combination has a kernel");
        let blocks = plan.shape.blocks;
        let resident = problem.capabilities.blocks_max[0] * (THREADS_MAX / plan.shape.threads);
        prop_assert!(blocks >= 1 && blocks <= resident);
        prop_assert!(plan.shape.threads.is_multiple_of(32) && plan.shape.threads <= THREADS_MAX);
        prop_assert!(plan.shape.threads >= problem.n_ranks);
        prop_assert!(blocks <= form_of(plan.kernel.algorithm).blocks_max);
        let text = explain(&problem);
        prop_assert!(text.contains(plan.kernel.algorithm.name()));
        let needs = plan.kernel.algorithm.multicast().unwrap_or(NONE);
        let has = problem.multicast.unwrap_or(NONE);
        prop_assert!(needs.input <= has.input && needs.output <= has.output);
        prop_assert_eq!(text.matches("\n  not ").count(), Algorithm::ALL.len() - 1);
    }
}

const NONE: Multicast = Multicast { input: false, output: false };

fn on_two(
    collective: Collective,
    count: u64,
    dtype: Dtype,
    algorithm: Option<Algorithm>,
) -> Problem<'static> {
    let capabilities = Capabilities {
        sm: 90,
        blocks_max: [132; Algorithm::ALL.len()],
        algorithm,
        ctas: None,
        threads: None,
        tuning: TuningTable::built_in(),
    };
    let op = collective.reduces().then_some(Op::Sum);
    Problem { collective, count, dtype, op, n_ranks: 2, multicast: None, capabilities }
}

#[test]
fn an_override_holds_where_a_kernel_exists() {
    for (wanted, chosen) in [
        (Algorithm::TwoShotLdSt, Algorithm::TwoShotLdSt),
        (Algorithm::SentinelTwoShot, Algorithm::SentinelTwoShot),
        (Algorithm::St, Algorithm::Ll),
    ] {
        let mut problem = on_two(Collective::AllReduce, 2, Dtype::F32, Some(wanted));
        problem.capabilities.ctas = Some(9);
        let plan = plan(&problem).expect("exists");
        assert_eq!((plan.kernel.algorithm, plan.shape.blocks), (chosen, 9));
    }
}

/// What multimem does is what is asked for; all else goes on without it, and says why.
#[test]
fn multicast_is_for_what_has_it() {
    let both = Some(Multicast { input: true, output: true });
    let one = Some(Multicast { input: true, output: false });
    for (collective, dtype, algorithm, multicast, expected) in [
        (Collective::AllReduce, Dtype::Bf16, Algorithm::Mc, both, None),
        (Collective::AllReduce, Dtype::I64, Algorithm::Mc, both, None),
        (Collective::AllReduce, Dtype::E4m3, Algorithm::Mc, both, Some("mc: multimem does not do this")),
        (Collective::AllReduce, Dtype::F32, Algorithm::Mc, one, Some("mc: the output has no multicast")),
        (Collective::AllReduce, Dtype::F32, Algorithm::Mc, None, Some("mc: the communicator has no")),
        (Collective::AllReduce, Dtype::F32, Algorithm::LlMc, one, None),
        (Collective::ReduceScatter, Dtype::F32, Algorithm::LdMc, one, None),
        (Collective::ReduceScatter, Dtype::F32, Algorithm::Mc, both, Some("mc: no kernel")),
        (Collective::AllGather, Dtype::U8, Algorithm::StMc, one, Some("st_mc: the output has no multicast")),
        (Collective::AllGather, Dtype::U8, Algorithm::LlMc, one, None),
    ] {
        let problem = Problem { multicast, ..on_two(collective, 5, dtype, Some(algorithm)) };
        let chosen = plan(&problem).expect("exists").kernel.algorithm;
        let text = explain(&problem);
        match expected {
            None => assert_eq!(chosen, algorithm, "{text}"),
            Some(why) => assert!(chosen.multicast().is_none() && text.contains(why), "{text}"),
        }
    }
    let problem = Problem { multicast: both, ..on_two(Collective::AllReduce, 5, Dtype::F32, None) };
    assert!(explain(&problem).contains("not mc: "), "{}", explain(&problem));
}

#[test]
fn small_goes_in_one_hop_and_large_by_parts() {
    for (collective, bytes, dtype, chosen) in [
        (Collective::AllReduce, 8, Dtype::F32, Algorithm::Ll),
        (Collective::AllReduce, 128 << 10, Dtype::F32, Algorithm::Sentinel),
        (Collective::AllReduce, 4 << 20, Dtype::Bf16, Algorithm::Sentinel),
        // Integers have no value to spare.
        (Collective::AllReduce, 1 << 20, Dtype::I32, Algorithm::Ll128),
        (Collective::AllReduce, 1 << 20, Dtype::U64, Algorithm::Ll),
        (Collective::AllReduce, 1 << 29, Dtype::F32, Algorithm::TwoShotPush),
        (Collective::ReduceScatter, 1 << 29, Dtype::F64, Algorithm::Sentinel),
        (Collective::ReduceScatter, 1 << 24, Dtype::I32, Algorithm::Ld),
        (Collective::ReduceScatter, 1 << 29, Dtype::I32, Algorithm::Push),
        (Collective::AllGather, 1 << 20, Dtype::U8, Algorithm::Sentinel),
        (Collective::AllGather, 1 << 29, Dtype::U8, Algorithm::St),
    ] {
        let problem = on_two(collective, bytes / dtype.bytes(), dtype, None);
        let plan = plan(&problem).expect("exists");
        assert_eq!(plan.kernel.algorithm, chosen, "{collective} {bytes} {dtype}");
    }
}

/// An algorithm that is never chosen by itself is not called slower.
#[test]
fn what_has_to_be_asked_for_is_said() {
    let text = explain(&on_two(Collective::AllGather, 1 << 28, Dtype::U8, None));
    for line in ["not ce: is taken only where it is asked for", "not ll: st was measured"] {
        assert!(text.contains(line), "`{line}` is not in: {text}");
    }
}

/// The table alone decides, and the explanation shows its row; where it has none, or one that cannot be, the model does.
#[test]
fn what_was_measured_decides_and_is_shown() {
    let rows = "90 2 unicast all_reduce float 1K:two_shot_push more:sentinel\n\
                90 2 multicast all_reduce float 2K:mc more:ll_mc\n\
                90 3 unicast all_gather any more:ce";
    let table = TuningTable::parse(rows).expect("valid");
    let both = Some(Multicast { input: true, output: true });
    let one = Some(Multicast { input: true, output: false });
    let row =
        |at: usize| rows.lines().nth(at).expect("a row").trim().rsplit(' ').next().expect("an interval");
    for (collective, bytes, dtype, n_ranks, multicast, chosen, shown) in [
        (Collective::AllReduce, 1024, Dtype::F32, 2, None, Algorithm::TwoShotPush, "up to 1K bytes"),
        (Collective::AllReduce, 1028, Dtype::F32, 2, None, Algorithm::Sentinel, row(0)),
        (Collective::AllReduce, 1024, Dtype::F32, 2, both, Algorithm::Mc, "up to 2K bytes"),
        (Collective::AllReduce, 4096, Dtype::F32, 2, one, Algorithm::LlMc, row(1)),
        // The output has no multicast, and `ll_mc` no kernels of f64.
        (Collective::AllReduce, 1024, Dtype::F32, 2, one, Algorithm::TwoShotPush, row(0)),
        (Collective::AllReduce, 4096, Dtype::F64, 2, one, Algorithm::Sentinel, row(0)),
        (Collective::AllGather, 1 << 20, Dtype::I8, 3, both, Algorithm::Ce, row(2)),
        (Collective::AllReduce, 1024, Dtype::F32, 4, None, Algorithm::Ll, "by the model"),
        (Collective::AllReduce, 1024, Dtype::I32, 2, None, Algorithm::Ll, "by the model"),
    ] {
        let mut problem =
            Problem { n_ranks, multicast, ..on_two(collective, bytes / dtype.bytes(), dtype, None) };
        problem.capabilities.tuning = &table;
        let (plan, text) = (plan(&problem).expect("exists"), explain(&problem));
        assert_eq!(plan.kernel.algorithm, chosen, "{text}");
        let since = text.lines().nth(1).expect("a reason");
        assert!(since.starts_with("  since ") && since.contains(shown), "{text}");
    }
}
