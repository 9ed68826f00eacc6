//! What a launcher says of this process: torchrun, Slurm or Open MPI, by their environment variables.

use crate::comm::unique_id::{JobId, Meeting, UniqueId, runtime_dir};
use crate::{Error, ErrorKind, Result};

/// Names the meeting explicitly: `tcp://HOST:PORT` or `dir:/PATH`.
const RENDEZVOUS: &str = "SYMMEM_RENDEZVOUS";

/// A process's place in its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) rank: u32,
    pub(crate) n_ranks: u32,
    /// Rank among the processes of this host.
    pub(crate) local_rank: u32,
    pub(crate) id: UniqueId,
}

/// How a launcher names things.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    n_ranks: &'static str,
    local_rank: &'static str,
    /// Ranks of this host.
    n_local_ranks: &'static str,
    /// What tells this job from others; the first must be set.
    job: &'static [&'static str],
}

/// In the order in which they are asked: a launcher started by another one is asked first.
const LAUNCHERS: [Launcher; 3] = [
    Launcher {
        name: "torchrun",
        rank: "RANK",
        n_ranks: "WORLD_SIZE",
        local_rank: "LOCAL_RANK",
        n_local_ranks: "LOCAL_WORLD_SIZE",
        job: &["MASTER_PORT", "MASTER_ADDR", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"],
    },
    Launcher {
        name: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        n_ranks: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        n_local_ranks: "OMPI_COMM_WORLD_LOCAL_SIZE",
        job: &["PMIX_NAMESPACE"],
    },
    Launcher {
        name: "Slurm",
        rank: "SLURM_PROCID",
        n_ranks: "SLURM_NTASKS",
        local_rank: "SLURM_LOCALID",
        n_local_ranks: "SLURM_NTASKS_PER_NODE",
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"],
    },
];

impl Place {
    /// The place that the environment gives; `number` counts the communicators that this process has made so: each has
    /// an id of its own.
    ///
    /// The port of torchrun (`MASTER_PORT`) only names the meeting, which is in a directory of this host: the port itself
    /// belongs to torch.
    pub(crate) fn from_variables(variable: impl Fn(&str) -> Option<String>, number: u64) -> Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let launcher = LAUNCHERS.iter().find(|launcher| set(launcher.rank).is_some());
        let launcher = launcher.ok_or_else(no_launcher)?;
        let (rank, n_ranks) =
            (needed(&set, launcher, launcher.rank)?, needed(&set, launcher, launcher.n_ranks)?);
        if rank >= n_ranks {
            let allowed = format!("less than {} ({n_ranks})", launcher.n_ranks);
            return Err(invalid(launcher.rank, rank.to_string(), &allowed));
        }
        let local_rank = needed(&set, launcher, launcher.local_rank)?;
        if let Some(n_local) = number_of(&set, launcher.n_local_ranks)?.filter(|n_local| *n_local < n_ranks) {
            let hint = format!(
                "{} says {} of {n_ranks} ranks are on this host ({}); start all ranks of a communicator on one host",
                launcher.name, n_local, launcher.n_local_ranks
            );
            return Err(
                ErrorKind::Unsupported { what: "a communicator over several hosts".into(), hint }.into()
            );
        }
        let id = id(&set, launcher, n_ranks, number)?;
        Ok(Self { rank, n_ranks, local_rank, id })
    }
}

/// The id that follows from what is equal on all ranks.
fn id(
    set: &impl Fn(&str) -> Option<String>,
    launcher: &Launcher,
    n_ranks: u32,
    number: u64,
) -> Result<UniqueId> {
    let explicit = set(RENDEZVOUS);
    let mut words = vec![launcher.name.to_owned(), n_ranks.to_string(), number.to_string()];
    words.extend(launcher.job.iter().map(|name| set(name).unwrap_or_default()));
    words.extend(explicit.clone());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let job = JobId::of_words(&words);
    let meeting = match explicit {
        Some(text) => match text.trim().parse().map_err(|_| wrong_rendezvous(&text))? {
            // One directory may serve one job's communicators one after another, each in a room of its own.
            Meeting::Directory(path) => Meeting::Directory(path.join(format!("symmem-{job}"))),
            tcp => tcp,
        },
        None if set(launcher.job[0]).is_some() => {
            Meeting::Directory(runtime_dir().join(format!("symmem-{job}")))
        }
        None => {
            let hint = format!(
                "{} gives neither {} nor {RENDEZVOUS}; set the latter to tcp://HOST:PORT or dir:/PATH, equal on all ranks",
                launcher.name, launcher.job[0]
            );
            return Err(ErrorKind::Unsupported { what: "finding the other ranks".into(), hint }.into());
        }
    };
    Ok(UniqueId { job, meeting })
}

fn needed(set: &impl Fn(&str) -> Option<String>, launcher: &Launcher, name: &'static str) -> Result<u32> {
    number_of(set, name)?.ok_or_else(|| {
        let allowed = format!("a whole number, as {} gives beside {}", launcher.name, launcher.rank);
        invalid(name, "not set".into(), &allowed)
    })
}

fn number_of(set: &impl Fn(&str) -> Option<String>, name: &'static str) -> Result<Option<u32>> {
    let Some(text) = set(name) else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| invalid(name, text, "a whole number"))
}

fn no_launcher() -> Error {
    let names = LAUNCHERS.map(|launcher| format!("{} ({})", launcher.rank, launcher.name)).join(", ");
    let hint = format!("none of {names} is set; use Comm::init_rank, or Comm::init_all in one process");
    ErrorKind::Unsupported { what: "a communicator without a launcher".into(), hint }.into()
}

fn wrong_rendezvous(text: &str) -> Error {
    invalid(RENDEZVOUS, text.into(), "tcp://HOST:PORT or dir:/ABSOLUTE/PATH")
}

fn invalid(what: &'static str, found: String, allowed: &str) -> Error {
    ErrorKind::InvalidArgument { what, found, allowed: allowed.into() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(words: &str) -> Result<Place> {
        let find = |name: &str| {
            let mut pairs = words.split_whitespace().filter_map(|word| word.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        Place::from_variables(find, 0)
    }

    const TORCH: &str =
        "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500";
    const SLURM: &str = "SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_LOCALID=1 SLURM_JOB_ID=77";
    const MPI: &str =
        "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 PMIX_NAMESPACE=prterun-9";

    #[test]
    fn every_launcher_gives_a_place() {
        for words in [TORCH, SLURM, MPI] {
            let place = from(words).expect(words);
            assert_eq!((place.rank, place.n_ranks, place.local_rank), (1, 4, 1), "{words}");
            assert!(matches!(place.id.meeting, Meeting::Directory(_)), "{words}");
            let explicit = from(&format!("{words} {RENDEZVOUS}=tcp://localhost:7000")).expect(words);
            assert_eq!(explicit.id.meeting, Meeting::Tcp { host: "localhost".into(), port: 7000 });
            let directory = from(&format!("{words} {RENDEZVOUS}=dir:/shared")).expect(words);
            assert!(directory.id.meeting.to_string().starts_with("dir:/shared/symmem-"), "{words}");
        }
    }

    #[test]
    fn equal_on_all_ranks_and_different_for_all_jobs() {
        let id = |words: &str| from(words).expect(words).id;
        assert_eq!(id(TORCH), id(&TORCH.replace("RANK=1", "RANK=2")));
        let others = [
            TORCH.replace("29500", "29501"),
            format!("{TORCH} TORCHELASTIC_RESTART_COUNT=1"),
            SLURM.into(),
            SLURM.replace("77", "78"),
            format!("{SLURM} SLURM_STEP_ID=3"),
            MPI.into(),
        ];
        let mut ids: Vec<String> = others.iter().map(|words| id(words).to_string()).collect();
        ids.push(id(TORCH).to_string());
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), others.len() + 1);
    }

    #[test]
    fn torchrun_inside_slurm_is_asked_first() {
        let place = from(&format!("{SLURM} {TORCH} RANK=1")).expect("both are complete");
        assert_eq!(place.id, from(TORCH).expect("complete").id);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = [
            ("", "none of RANK"),
            ("RANK=0", "WORLD_SIZE"),
            ("RANK=4 WORLD_SIZE=4 LOCAL_RANK=0 MASTER_PORT=1", "less than WORLD_SIZE (4)"),
            ("RANK=x WORLD_SIZE=4", "RANK is x"),
            ("RANK=0 WORLD_SIZE=4", "LOCAL_RANK"),
            ("RANK=0 WORLD_SIZE=4 LOCAL_RANK=0", RENDEZVOUS),
            ("RANK=0 WORLD_SIZE=16 LOCAL_RANK=0 LOCAL_WORLD_SIZE=8 MASTER_PORT=1", "8 of 16 ranks"),
            ("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0", RENDEZVOUS),
            (
                "SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_LOCALID=0 SYMMEM_RENDEZVOUS=dir:x",
                "SYMMEM_RENDEZVOUS is dir:x",
            ),
        ];
        for (words, named) in wrong {
            let text = from(words).expect_err(words).to_string();
            assert!(text.contains(named), "{words}: {text}");
        }
    }
}
