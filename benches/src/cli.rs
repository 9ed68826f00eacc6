//! The command line.

use crate::case::Sizes;
use crate::memory::Memory;
use crate::sizes::parse_size;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use symmem::{Algorithm, Collective, Dtype, Op};

/// Measures and checks collectives on symmetric memory, in the manner of nccl-tests.
///
/// One process and one thread drive all ranks, one stream each; with --procs, each rank is a process. Every output byte
/// of every rank is compared with a reference; the exit status is 1 when anything is wrong, 2 for a command line that
/// makes no sense.
#[derive(Debug, Parser)]
#[command(name = "symmem-bench", version, after_help = crate::tools::HELP)]
pub(crate) struct Cli {
    /// What to measure [default: all]
    #[arg(value_name = "COLLECTIVE", value_parser = one_of::<Collective>())]
    pub(crate) collectives: Vec<Choice<Collective>>,

    /// Smallest size in bytes: the buffer of an all-reduce, all shares of an all-gather; suffixes K, M, G [default: 8]
    #[arg(short = 'b', long, value_name = "SIZE", value_parser = parse_size)]
    min_bytes: Option<u64>,

    /// Largest size in bytes [default: 128M; 32K on the simulated machine]
    #[arg(short = 'e', long, value_name = "SIZE", value_parser = parse_size)]
    max_bytes: Option<u64>,

    /// Factor between sizes
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..))]
    factor: u64,

    /// Exact number of elements (of one rank's share in an all-gather), instead of sizes; may be repeated
    #[arg(long = "count", value_name = "N", conflicts_with_all = ["min_bytes", "max_bytes", "factor"])]
    counts: Vec<u64>,

    /// Ranks, one per device unless they share [default: all GPUs; 4 on the simulated machine]
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks: Option<u32>,

    /// Ranks that may share a GPU: more ranks than GPUs, right though not fast [default: SYMMEM_RANKS_PER_GPU, or 1]
    #[arg(long, value_name = "K", conflicts_with_all = ["procs", "vs"], value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks_per_gpu: Option<u32>,

    /// Processes, one per device, each a rank
    #[arg(long, value_name = "N", conflicts_with = "ranks", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) procs: Option<u32>,

    /// With --procs: kill all of them after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, requires = "procs")]
    pub(crate) timeout_s: u64,

    /// Element types, separated by commas
    #[arg(short, long, value_delimiter = ',', default_value = "f32", value_parser = one_or_all::<Dtype>())]
    dtype: Vec<Choice<Dtype>>,

    /// Reductions, separated by commas
    #[arg(short, long, value_delimiter = ',', default_value = "sum", value_parser = one_or_all::<Op>())]
    op: Vec<Choice<Op>>,

    /// Operations that are timed together, or that one graph or one kernel holds [default: 20; 1 on the simulated machine,
    /// 2 by one kernel]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) iters: Option<u32>,

    /// Operations before those that are timed [default: 5; none on the simulated machine]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=65536))]
    pub(crate) warmup: Option<u32>,

    /// Replays of the graph that are timed together; 0 launches operations one by one [default: 10; 0 on the simulated
    /// machine]. With --timing device, so many times as many operations are timed
    #[arg(short = 'G', long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=65536))]
    pub(crate) graph: Option<u32>,

    /// Rounds of checks on new random data; 0 checks nothing [default: 4; 1 on the simulated machine]
    ///
    /// A round is one run of what is timed, a graph's replay for instance. Of an all-reduce out of place with several
    /// operations, every second round runs them with each reading what the one before wrote.
    #[arg(short, long, value_name = "N")]
    pub(crate) check: Option<u64>,

    /// Compare at most so many bytes of output in the rounds of one row, but at least one round
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) check_bytes_max: Option<u64>,

    /// Seed of the random data [default: from the clock]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Machine to run on; auto is SYMMEM_DEVICE if set, else GPUs where there are any
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    pub(crate) device: DeviceChoice,

    /// Algorithm that must run; collectives that lack it are left out unless they are named
    #[arg(long, value_name = "NAME", value_parser = one_of::<Algorithm>())]
    pub(crate) algo: Option<Choice<Algorithm>>,

    /// Library to compare with, in the same process and on the same buffers, in turns with ours
    ///
    /// NCCL is looked for by the loader (LD_LIBRARY_PATH) and among the packages of Python; SYMMEM_NCCL_LIB names a file
    /// instead. It runs twice: R0, with ordinary buffers, and R2, with buffers registered as windows. Results are checked
    /// with small whole numbers, once a row. Where it is not found, ours is measured alone.
    #[arg(long, value_enum, value_name = "LIBRARY", conflicts_with = "procs")]
    pub(crate) vs: Option<Rival>,

    /// Let NCCL use NVLink multicast; otherwise it is loaded only where NCCL_NVLS_ENABLE=0 is set
    #[arg(long, requires = "vs")]
    pub(crate) nccl_multicast: bool,

    /// What is timed [default: graph; eager with -G 0]
    #[arg(long, value_enum)]
    pub(crate) timing: Option<Timing>,

    /// Who maps the buffers [default: alloc; register with --vs, since NCCL has to take them too]
    #[arg(long, value_enum)]
    buffers: Option<Memory>,

    /// Draw latency and bus bandwidth against size to a file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,

    /// Write JSON lines, one row per measurement, to a file; - is standard output, and the table goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Library to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rival {
    /// NVIDIA's.
    Nccl,
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Timing {
    /// Replays of a graph of operations, on the devices.
    Graph,
    /// Operations launched one by one, on the devices.
    Eager,
    /// The calls that launch operations one by one, on the host, for one rank.
    Host,
    /// One kernel on each device that does operations one after the other, of f32 sum or of what does not reduce.
    Device,
}

/// Machine to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceChoice {
    /// Whatever there is.
    Auto,
    /// GPUs.
    Cuda,
    /// The simulated machine.
    Sim,
}

/// One value, or all of them (`None`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice<T>(pub(crate) Option<T>);

/// Types whose values have names.
pub(crate) trait Named: Copy + Send + Sync + 'static {
    /// All values with their names.
    fn all() -> Vec<(Self, &'static str)>;
}

macro_rules! named {
    ($($type:ty)*) => {$(
        impl Named for $type {
            fn all() -> Vec<(Self, &'static str)> {
                Self::ALL.iter().map(|one| (*one, one.name())).collect()
            }
        }
    )*};
}

named! { Collective Algorithm Dtype Op }

pub(crate) fn one_of<T: Named>() -> impl TypedValueParser<Value = Choice<T>> {
    PossibleValuesParser::new(T::all().into_iter().map(|(_, name)| name)).map(choice)
}

fn one_or_all<T: Named>() -> impl TypedValueParser<Value = Choice<T>> {
    PossibleValuesParser::new(T::all().into_iter().map(|(_, name)| name).chain(["all"])).map(choice)
}

fn choice<T: Named>(name: String) -> Choice<T> {
    Choice(T::all().into_iter().find(|(_, its)| *its == name).map(|(one, _)| one))
}

/// The values chosen, each once, in the order of their table.
pub(crate) fn chosen<T: Named + PartialEq>(choices: &[Choice<T>]) -> Vec<T> {
    let is_chosen =
        |one: &T| choices.is_empty() || choices.iter().any(|choice| choice.0.is_none_or(|its| its == *one));
    T::all().into_iter().map(|(one, _)| one).filter(is_chosen).collect()
}

impl Cli {
    /// Types asked for.
    pub(crate) fn dtypes(&self) -> Vec<Dtype> {
        chosen(&self.dtype)
    }

    /// Reductions asked for.
    pub(crate) fn ops(&self) -> Vec<Op> {
        chosen(&self.op)
    }

    /// Who maps the buffers.
    pub(crate) fn memory(&self) -> Memory {
        self.buffers.unwrap_or(if self.vs.is_some() { Memory::Register } else { Memory::Alloc })
    }

    /// Replays of the graph, where the machine's own number is `replays`; 0 launches operations one by one.
    ///
    /// # Errors
    ///
    /// If what is timed and the number of replays contradict each other.
    pub(crate) fn replays(&self, replays: u32) -> Result<u32, String> {
        match (self.timing, self.graph) {
            (None, graph) => Ok(graph.unwrap_or(replays)),
            (Some(Timing::Graph), Some(0)) => Err("--timing graph needs replays, not -G 0".to_owned()),
            (Some(Timing::Graph), graph) => Ok(graph.unwrap_or(replays.max(1))),
            (Some(Timing::Device), graph) => Ok(graph.unwrap_or(replays).max(1)),
            (Some(_), None | Some(0)) => Ok(0),
            (Some(timing), Some(graph)) => {
                let timing = format!("{timing:?}").to_lowercase();
                Err(format!(
                    "--timing {timing} launches operations one by one, so there is no graph for -G {graph}"
                ))
            }
        }
    }

    /// Whether one kernel is to do all operations.
    ///
    /// # Errors
    ///
    /// If that is timed beside a library that has no such kernel, or of types and reductions that have none.
    pub(crate) fn is_looped(&self) -> Result<bool, String> {
        if self.timing != Some(Timing::Device) {
            return Ok(false);
        }
        if self.vs.is_some() {
            return Err("--timing device is of kernels that loop, and NCCL has none: leave out --vs".into());
        }
        let reduces = self.chosen_collectives()?.into_iter().any(Collective::reduces);
        if reduces && (self.dtypes(), self.ops()) != (vec![Dtype::F32], vec![Op::Sum]) {
            return Err(
                "--timing device reduces f32 by sum alone; what does not reduce takes any type".into()
            );
        }
        Ok(true)
    }

    /// The algorithm asked for.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.algo.and_then(|choice| choice.0)
    }

    /// Collectives asked for: those that have the algorithm asked for.
    ///
    /// # Errors
    ///
    /// If one that was named has no kernel of that algorithm.
    pub(crate) fn chosen_collectives(&self) -> Result<Vec<Collective>, String> {
        let Some(algorithm) = self.algorithm() else { return Ok(chosen(&self.collectives)) };
        let has = |collective: &Collective| {
            let mut kernels = symmem_device::kernels::KERNELS.iter();
            kernels.any(|kernel| (kernel.collective, kernel.algorithm) == (*collective, algorithm))
        };
        if let Some(lacking) = self.collectives.iter().filter_map(|choice| choice.0).find(|one| !has(one)) {
            return Err(format!("{lacking} has no algorithm {algorithm}"));
        }
        Ok(chosen(&self.collectives).into_iter().filter(has).collect())
    }

    /// Sizes asked for.
    ///
    /// # Errors
    ///
    /// If there are none.
    pub(crate) fn sizes(&self, max_bytes: u64) -> Result<Sizes, String> {
        if !self.counts.is_empty() {
            return Ok(Sizes::Counts(self.counts.clone()));
        }
        let min = self.min_bytes.unwrap_or(8);
        let max = self.max_bytes.unwrap_or(max_bytes.max(min));
        if min > max {
            return Err(format!("--min-bytes {min} is larger than --max-bytes {max}"));
        }
        Ok(Sizes::Range { min, max, factor: self.factor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(args: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("symmem-bench").chain(args.split_whitespace()))
    }

    #[test]
    fn the_command_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults_are_f32_sum_of_everything() {
        let cli = parse("").expect("nothing is needed");
        assert_eq!(cli.chosen_collectives().as_deref(), Ok(Collective::ALL));
        assert_eq!((cli.dtypes(), cli.ops()), (vec![Dtype::F32], vec![Op::Sum]));
        assert_eq!(cli.sizes(1 << 20), Ok(Sizes::Range { min: 8, max: 1 << 20, factor: 4 }));
    }

    #[test]
    fn reads_the_words_of_nccl_tests() {
        let cli = parse("all_gather -b 1K -e 64M -f 8 -g 2 -d bf16,f16 -o all -n 7 -w 3 -G 100 -c 100")
            .expect("valid");
        assert_eq!(cli.chosen_collectives(), Ok(vec![Collective::AllGather]));
        assert_eq!(cli.sizes(0), Ok(Sizes::Range { min: 1024, max: 64 << 20, factor: 8 }));
        assert_eq!(cli.dtypes(), [Dtype::F16, Dtype::Bf16]);
        assert_eq!(cli.ops(), Op::ALL);
        assert_eq!(
            (cli.ranks, cli.iters, cli.warmup, cli.graph, cli.check),
            (Some(2), Some(7), Some(3), Some(100), Some(100))
        );
        let cli = parse("--count 1 --count 4097").expect("valid");
        assert_eq!(cli.sizes(0), Ok(Sizes::Counts(vec![1, 4097])));
    }

    #[test]
    fn what_is_timed_and_replays_agree() {
        let table = [
            ("", Ok(10)),
            ("-G 0", Ok(0)),
            ("--timing graph", Ok(10)),
            ("--timing graph -G 3", Ok(3)),
            ("--timing device", Ok(10)),
            ("--timing device -G 0", Ok(1)),
            ("--timing eager", Ok(0)),
            ("--timing host -G 0", Ok(0)),
            ("--timing graph -G 0", Err("needs replays")),
            ("--timing host -G 4", Err("no graph for -G 4")),
        ];
        for (args, expected) in table {
            match (parse(args).expect("each is valid").replays(10), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{args}"),
                (Err(found), Err(needle)) => assert!(found.contains(needle), "{args}: {found}"),
                (found, _) => panic!("{args}: {found:?}"),
            }
        }
        assert_eq!(parse("--timing graph").expect("valid").replays(0), Ok(1));
        assert_eq!(parse("--timing device").expect("valid").replays(0), Ok(1));
    }

    #[test]
    fn loops_are_of_what_has_them() {
        let table = [
            ("", Ok(false)),
            ("--timing device", Ok(true)),
            ("all_gather broadcast --timing device -d all", Ok(true)),
            ("--timing device -d bf16", Err("f32 by sum")),
            ("reduce_scatter --timing device -o max", Err("f32 by sum")),
            ("--timing device --vs nccl", Err("NCCL has none")),
        ];
        for (args, expected) in table {
            match (parse(args).expect("each is valid").is_looped(), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{args}"),
                (Err(found), Err(needle)) => assert!(found.contains(needle), "{args}: {found}"),
                (found, _) => panic!("{args}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_rival_needs_buffers_that_it_can_take() {
        let memory = |args| parse(args).expect("valid").memory();
        assert_eq!((memory(""), memory("--vs nccl")), (Memory::Alloc, Memory::Register));
        assert_eq!(memory("--vs nccl --buffers alloc"), Memory::Alloc);
    }

    #[test]
    fn an_algorithm_leaves_out_what_lacks_it_unless_named() {
        let cli = parse("--algo two_shot_ld_st").expect("valid");
        assert_eq!(cli.chosen_collectives(), Ok(vec![Collective::AllReduce]));
        let error = parse("all_gather --algo two_shot_ld_st").expect("valid").chosen_collectives();
        assert!(error.expect_err("it lacks it").contains("all_gather"));
    }

    #[test]
    fn bad_words_are_refused_with_what_is_allowed() {
        let refused = [
            ("all_reduse", "all_reduce"),
            ("-d f128", "bf16"),
            ("-o xor", "avg"),
            ("--algo ring", "two_shot_ld_st"),
            ("-g 0", "1.."),
            ("-f 1", "2.."),
            ("-n 0", "1.."),
            ("-b 8Q", "suffix"),
            ("-e 99999999999999999999", "large"),
            ("--count 3 -b 8", "cannot be used"),
            ("--device tpu", "sim"),
            ("--procs 2 --ranks 2", "cannot be used"),
            ("--procs 2 --ranks-per-gpu 2", "cannot be used"),
            ("--ranks-per-gpu 2 --vs nccl", "cannot be used"),
            ("--procs 0", "1.."),
            ("--procs 2 --vs nccl", "cannot be used"),
            ("--vs mpi", "nccl"),
            ("--nccl-multicast", "--vs"),
            ("--timing loop", "graph"),
        ];
        for (args, needle) in refused {
            let text = parse(args).expect_err(args).to_string();
            assert!(text.contains(needle), "{args}: {text}");
        }
        assert!(parse("-b 2K -e 1K").expect("each is valid").sizes(0).is_err());
    }
}
