//! Which request of a communicator it is the turn of: its ranks meet for one at a time, and each says which it has come
//! for.
//!
//! Each rank counts what it was asked for. The counts differ only where a rank gave up on a request that another had not
//! come to by the deadline. Who then comes late is told so, and the ranks that have gone on stay at the request that they
//! wait with. So all ranks that carry a request out together have come for the same one, and none for one of equal size
//! that happens to be asked for at the same time.
//!
//! A deregistration names its window, and a rank that drops the window instead need not come: registrations are counted
//! apart from deregistrations, and only those must be equal. What all ranks have answered together, with a result or an
//! error, is behind all of them: they count on from the same numbers.

use crate::comm::bootstrap::{Bootstrap, gather};
use crate::{Error, ErrorKind, Result};
use bytemuck::{Pod, Zeroable};
use std::fmt;
use std::time::{Duration, Instant};

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Register,
    /// Of kernels. Counted with the registrations: every rank must come.
    Prepare,
    /// Of the window of that registration; `None` for one that is not this communicator's.
    Deregister {
        number: Option<u64>,
    },
}

/// What a rank has been asked for so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    registrations: u64,
    deregistrations: u64,
}

/// What a rank has come for.
#[derive(Clone, Debug)]
struct Ask {
    /// Before this one.
    turn: Turn,
    kind: Kind,
    /// Why the rank will not do its part.
    refusal: Option<Error>,
}

/// [`Ask`] on its way; the bytes of the refusal follow.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Head {
    registrations: u64,
    deregistrations: u64,
    /// 0 register, 1 deregister, 2 deregister what is no window of this communicator, 3 prepare.
    kind: u64,
    number: u64,
}

/// What follows from what all ranks have come for.
#[derive(Debug)]
enum Verdict {
    /// For one and the same.
    Together,
    /// These ranks for what others gave up on.
    Late(Vec<usize>),
    /// For what cannot be carried out, on any rank.
    Refused(Error),
}

impl Turn {
    /// Number of the next registration.
    pub(crate) fn registrations(self) -> u64 {
        self.registrations
    }

    fn after(self, kind: Kind) -> Self {
        match kind {
            Kind::Register | Kind::Prepare => Self { registrations: self.registrations + 1, ..self },
            Kind::Deregister { .. } => Self { deregistrations: self.deregistrations + 1, ..self },
        }
    }

    /// Behind everything that some rank has been asked for.
    fn after_all(asks: &[Ask]) -> Self {
        asks.iter().map(|ask| ask.turn.after(ask.kind)).fold(Self::default(), |all, one| Self {
            registrations: all.registrations.max(one.registrations),
            deregistrations: all.deregistrations.max(one.deregistrations),
        })
    }
}

impl Ask {
    fn to_bytes(&self) -> Vec<u8> {
        let (kind, number) = match self.kind {
            Kind::Register => (0, 0),
            Kind::Prepare => (3, 0),
            Kind::Deregister { number } => (if number.is_some() { 1 } else { 2 }, number.unwrap_or(0)),
        };
        let Turn { registrations, deregistrations } = self.turn;
        let head = Head { registrations, deregistrations, kind, number };
        let refusal = self.refusal.as_ref().map(Error::to_bytes).unwrap_or_default();
        [bytemuck::bytes_of(&head), &refusal].concat()
    }

    /// `None` if these are the bytes of no request.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, refusal) = bytes.split_at_checked(size_of::<Head>())?;
        let head: Head = bytemuck::pod_read_unaligned(head);
        let kind = match head.kind {
            0 => Kind::Register,
            1 => Kind::Deregister { number: Some(head.number) },
            2 => Kind::Deregister { number: None },
            3 => Kind::Prepare,
            _ => return None,
        };
        let refusal = if refusal.is_empty() { None } else { Some(Error::from_bytes(refusal)?) };
        let Head { registrations, deregistrations, .. } = head;
        Some(Self { turn: Turn { registrations, deregistrations }, kind, refusal })
    }

    fn is_deregistration(&self) -> bool {
        matches!(self.kind, Kind::Deregister { .. })
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Register => write!(f, "registration {}", self.turn.registrations),
            Kind::Prepare => write!(f, "loading of kernels, as request {}", self.turn.registrations),
            Kind::Deregister { number: Some(number) } => write!(f, "deregistration of window {number}"),
            Kind::Deregister { number: None } => write!(f, "deregistration of a foreign window"),
        }
    }
}

/// All ranks meet for a request. Returns when all have come for this one, none with a refusal; `turn` is then behind it.
/// A rank that comes late gets an error that says so. The others wait on with their request, together up to `patience`.
pub(crate) fn meet(
    bootstrap: &dyn Bootstrap,
    turn: &mut Turn,
    kind: Kind,
    refusal: Option<Error>,
    patience: Duration,
) -> Result<()> {
    let ask = Ask { turn: *turn, kind, refusal };
    // Until all have answered together, this rank alone has been asked.
    *turn = turn.after(kind);
    let (start, me) = (Instant::now(), bootstrap.rank() as usize);
    loop {
        let asks = gather(bootstrap, "request", ask.to_bytes())?;
        let asks: Option<Vec<_>> = asks.iter().map(|bytes| Ask::from_bytes(bytes)).collect();
        let asks = asks.ok_or_else(|| ErrorKind::Foreign {
            what: "a request of a peer".into(),
            detail: "this version of symmem cannot read it".into(),
        })?;
        match decide(&asks) {
            Verdict::Late(ranks) if ranks.contains(&me) => return Err(late(&asks, &ranks, me, patience)),
            Verdict::Late(ranks) if start.elapsed() >= patience => {
                let missing = ranks.iter().map(|rank| *rank as u32).collect();
                let timeout_ms = patience.as_millis() as u64;
                return Err(ErrorKind::Deadline { what: ask.to_string(), timeout_ms, missing }.into());
            }
            Verdict::Late(ranks) => tracing::warn!(me, ?ranks, %ask, "waiting for ranks that are late"),
            Verdict::Together => {
                *turn = Turn::after_all(&asks);
                return Ok(());
            }
            Verdict::Refused(error) => {
                *turn = Turn::after_all(&asks);
                return Err(error);
            }
        }
    }
}

/// The same on all ranks.
fn decide(asks: &[Ask]) -> Verdict {
    let latest = |count: fn(&Ask) -> u64| asks.iter().map(count).max().unwrap_or(0);
    let ranks = |is_late: &dyn Fn(&Ask) -> bool| -> Vec<usize> {
        (0..asks.len()).filter(|&rank| is_late(&asks[rank])).collect()
    };
    let registrations = latest(|ask| ask.turn.registrations);
    let late = ranks(&|ask| ask.turn.registrations < registrations);
    if !late.is_empty() {
        return Verdict::Late(late);
    }
    if asks.iter().any(|ask| ask.kind != asks[0].kind) {
        let deregistrations = latest(|ask| ask.turn.deregistrations);
        let late = ranks(&|ask| ask.is_deregistration() && ask.turn.deregistrations < deregistrations);
        if !late.is_empty() {
            return Verdict::Late(late);
        }
    }
    if let Some((rank, error)) = (0..).zip(asks).find_map(|(rank, ask)| Some((rank, ask.refusal.clone()?))) {
        return Verdict::Refused(Error::of_rank(rank, error));
    }
    if asks.iter().all(|ask| ask.kind == asks[0].kind) {
        return Verdict::Together;
    }
    let values = asks.iter().map(ToString::to_string).collect();
    Verdict::Refused(ErrorKind::Mismatch { field: "the request", values }.into())
}

/// What the others got for this request when they gave up on it, and by which they can be known.
fn late(asks: &[Ask], late: &[usize], me: usize, patience: Duration) -> Error {
    let rank = (0..asks.len()).find(|rank| !late.contains(rank)).unwrap_or(0);
    let (mine, its) = (&asks[me], &asks[rank]);
    let what = format!("{mine}, which rank {rank} gave up on before this rank came (it is at {its} now)");
    let timeout_ms = patience.as_millis() as u64;
    ErrorKind::Deadline { what, timeout_ms, missing: vec![me as u32] }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(registrations: u64, deregistrations: u64, kind: Kind) -> Ask {
        Ask { turn: Turn { registrations, deregistrations }, kind, refusal: None }
    }

    fn of(number: u64) -> Kind {
        Kind::Deregister { number: Some(number) }
    }

    fn refusing(ask: Ask) -> Ask {
        let kind = ErrorKind::SizeOverflow { what: "what rank 1 asked for".into() };
        Ask { refusal: Some(kind.into()), ..ask }
    }

    #[test]
    fn who_meets_for_what() {
        let register = Kind::Register;
        let table = [
            ([ask(3, 0, register), ask(3, 0, register)], "together"),
            // Rank 1 dropped what rank 0 asked to deregister.
            ([ask(3, 1, register), ask(3, 0, register)], "together"),
            ([ask(3, 1, of(2)), ask(3, 0, of(2))], "together"),
            ([ask(3, 0, Kind::Prepare), ask(3, 1, Kind::Prepare)], "together"),
            ([ask(3, 0, register), ask(2, 0, Kind::Prepare)], "late [1]"),
            (
                [ask(3, 0, register), ask(3, 0, Kind::Prepare)],
                "rank 0 registration 3; rank 1 loading of kernels",
            ),
            ([ask(3, 0, register), ask(2, 0, register)], "late [1]"),
            ([ask(2, 0, of(1)), ask(3, 0, register)], "late [0]"),
            ([ask(3, 0, of(1)), ask(2, 5, register)], "late [1]"),
            // Rank 0 gave up on a deregistration.
            ([ask(3, 1, register), ask(3, 0, of(2))], "late [1]"),
            ([ask(3, 1, of(2)), ask(3, 0, of(1))], "late [1]"),
            (
                [ask(3, 0, register), ask(3, 0, of(2))],
                "rank 0 registration 3; rank 1 deregistration of window 2",
            ),
            (
                [ask(3, 1, of(2)), ask(3, 0, register)],
                "rank 0 deregistration of window 2; rank 1 registration 3",
            ),
            (
                [ask(3, 1, of(1)), ask(3, 1, of(2))],
                "rank 0 deregistration of window 1; rank 1 deregistration",
            ),
            ([ask(3, 0, register), refusing(ask(3, 0, register))], "rank 1 failed: what rank 1 asked for"),
            ([ask(3, 0, register), refusing(ask(2, 0, register))], "late [1]"),
            ([ask(3, 0, of(1)), refusing(ask(3, 0, Kind::Deregister { number: None }))], "rank 1 failed"),
        ];
        for (asks, expected) in table {
            let found = match decide(&asks) {
                Verdict::Together => "together".to_owned(),
                Verdict::Late(ranks) => format!("late {ranks:?}"),
                Verdict::Refused(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{asks:?}: {found}, not {expected}");
        }
    }

    proptest! {
        #[test]
        fn arrives_as_it_was(registrations: u64, deregistrations: u64, number: Option<u64>, refuses: bool) {
            for kind in [Kind::Register, Kind::Prepare, Kind::Deregister { number }] {
                let whole = ask(registrations, deregistrations, kind);
                let whole = if refuses { refusing(whole) } else { whole };
                let bytes = whole.to_bytes();
                let arrived = Ask::from_bytes(&bytes).expect("bytes of a request");
                prop_assert_eq!((arrived.turn, arrived.kind), (whole.turn, whole.kind));
                let text = |ask: Ask| ask.refusal.map(|error| error.to_string());
                prop_assert_eq!(text(arrived), text(whole));
                prop_assert!((0..size_of::<Head>()).all(|len| Ask::from_bytes(&bytes[..len]).is_none()));
            }
        }

        /// Three ranks run one program, come when they like, and give up when they like. Whoever carries out a request
        /// together is at the same place of the program; when nobody gives up any more, all come to its end together.
        #[test]
        fn only_the_same_request_is_carried_out_together(
            program in prop::collection::vec(any::<u8>(), 1..30),
            events in prop::collection::vec(0usize..5, 0..120),
        ) {
            let mut ranks = [(); 3].map(|()| Model::default());
            for event in events {
                match event {
                    3.. => ranks.iter_mut().for_each(Model::give_up),
                    rank => ranks[rank].come(&program),
                }
                meet_all(&mut ranks)?;
            }
            // From here on nobody gives up: who is ahead waits.
            let nobody_has_ended = ranks.iter().all(|rank| rank.at < program.len());
            while ranks.iter().all(|rank| rank.at < program.len()) {
                ranks.iter_mut().for_each(|rank| rank.come(&program));
                meet_all(&mut ranks)?;
            }
            if nobody_has_ended {
                prop_assert!(ranks.iter().all(|rank| rank.at == program.len()), "{ranks:?}");
            }
        }
    }

    /// One rank's way through the program.
    #[derive(Debug, Default)]
    struct Model {
        at: usize,
        turn: Turn,
        here: Option<Ask>,
        windows: Vec<u64>,
    }

    impl Model {
        fn come(&mut self, program: &[u8]) {
            let Some(&step) = program.get(self.at).filter(|_| self.here.is_none()) else { return };
            let kind = match self.windows.len() {
                n if n > 0 && step % 2 == 1 => of(self.windows[step as usize / 2 % n]),
                _ if step % 16 == 0 => Kind::Prepare,
                _ => Kind::Register,
            };
            self.here = Some(Ask { turn: self.turn, kind, refusal: None });
        }

        fn end(&mut self, turn: Turn) -> Option<Kind> {
            let kind = self.here.take()?.kind;
            if let Kind::Deregister { number } = kind {
                self.windows.retain(|window| Some(*window) != number);
            }
            (self.at, self.turn) = (self.at + 1, turn);
            Some(kind)
        }

        fn give_up(&mut self) {
            if let Some(ask) = &self.here {
                self.end(ask.turn.after(ask.kind));
            }
        }
    }

    fn meet_all(ranks: &mut [Model]) -> Result<(), TestCaseError> {
        let asks: Vec<_> = ranks.iter().filter_map(|rank| rank.here.clone()).collect();
        if asks.len() < ranks.len() {
            return Ok(());
        }
        match decide(&asks) {
            Verdict::Late(late) => late.into_iter().for_each(|rank| ranks[rank].give_up()),
            Verdict::Refused(error) => prop_assert!(false, "one program: {}", error),
            Verdict::Together => {
                prop_assert!(ranks.iter().all(|rank| rank.at == ranks[0].at), "{ranks:?}");
                let next = Turn::after_all(&asks);
                for rank in ranks {
                    if rank.end(next) == Some(Kind::Register) {
                        rank.windows.push(next.registrations - 1);
                    }
                }
            }
        }
        Ok(())
    }
}
