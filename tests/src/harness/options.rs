//! Command line and environment.

use anyhow::{Context as _, Result, bail};
use libtest_mimic::Arguments;

/// Where cases run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceChoice {
    /// On GPUs; no GPU is a failure.
    Cuda,
    /// On the simulated machine.
    Sim,
    /// On the simulated machine, and on GPUs where there are any.
    Auto,
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// `--full`, or `SYMMEM_TEST_FULL=1`: larger matrices, more rounds.
    pub(crate) full: bool,
    /// `--ranks-per-gpu K`, or `SYMMEM_TEST_RANKS_PER_GPU`: so many ranks share a device, default 1. Right, though not
    /// fast; it gives more ranks than there are GPUs.
    pub(crate) ranks_per_gpu: u32,
}

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    /// `--device`, or `SYMMEM_TEST_DEVICE`; default auto.
    pub(crate) device: DeviceChoice,
    /// How much is run.
    pub(crate) extent: Extent,
    /// `--child NAME`: run this one case in this process; on GPUs, unless `--device sim`.
    pub(crate) child: Option<String>,
    /// `--rank-program NAME`: this process is a rank that runs the program of that name.
    pub(crate) rank_program: Option<String>,
    /// What test programs understand: filters, `--list`, `--test-threads`, ….
    pub(crate) arguments: Arguments,
}

impl Options {
    /// Those of this process.
    ///
    /// # Errors
    ///
    /// Names what cannot be read.
    pub(crate) fn from_env() -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let device = variable("SYMMEM_TEST_DEVICE").unwrap_or_else(|| "auto".into());
        let full = variable("SYMMEM_TEST_FULL").is_some_and(|text| text != "0");
        let ranks_per_gpu = variable("SYMMEM_TEST_RANKS_PER_GPU").unwrap_or_else(|| "1".into());
        let extent = Extent { full, ranks_per_gpu: number(&ranks_per_gpu)? };
        Self::parse(std::env::args().collect(), device, extent)
    }

    fn parse(words: Vec<String>, mut device: String, mut extent: Extent) -> Result<Self> {
        let (mut rest, mut child, mut rank_program) = (Vec::new(), None, None);
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--device" => device = value()?,
                "--child" => child = Some(value()?),
                "--rank-program" => rank_program = Some(value()?),
                "--full" => extent.full = true,
                "--ranks-per-gpu" => extent.ranks_per_gpu = number(&value()?)?,
                _ => match word.strip_prefix("--device=") {
                    Some(value) => device = value.into(),
                    None => rest.push(word),
                },
            }
        }
        let device = match device.as_str() {
            "cuda" => DeviceChoice::Cuda,
            "sim" => DeviceChoice::Sim,
            "auto" => DeviceChoice::Auto,
            other => bail!("the device is {other}, allowed: cuda, sim, auto"),
        };
        Ok(Self { device, extent, child, rank_program, arguments: Arguments::from_iter(rest) })
    }
}

fn number(text: &str) -> Result<u32> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => bail!("the ranks per GPU are {text}, allowed: a whole number above 0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Options> {
        let words = ["cases"].into_iter().chain(words.split_whitespace()).map(str::to_owned);
        Options::parse(words.collect(), "auto".into(), Extent { full: false, ranks_per_gpu: 1 })
    }

    #[test]
    fn takes_its_own_options_and_leaves_the_others() {
        let options = parse("graphs --device cuda --full --ranks-per-gpu 4 --exact").expect("valid");
        assert_eq!(options.device, DeviceChoice::Cuda);
        assert_eq!(options.extent, Extent { full: true, ranks_per_gpu: 4 });
        assert_eq!((options.arguments.filter.as_deref(), options.arguments.exact), (Some("graphs"), true));
        assert_eq!(parse("--device=sim").expect("valid").device, DeviceChoice::Sim);
        assert_eq!(parse("--child a::b").expect("valid").child.as_deref(), Some("a::b"));
    }

    #[test]
    fn names_what_is_wrong() {
        for (words, named) in [
            ("--device tpu", "tpu"),
            ("--device", "--device"),
            ("--child", "--child"),
            ("--ranks-per-gpu 0", "ranks per GPU are 0"),
        ] {
            let text = parse(words).expect_err(words).to_string();
            assert!(text.contains(named), "{text}");
        }
    }
}
