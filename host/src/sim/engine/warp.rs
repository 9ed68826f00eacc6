//! Exchanges among the lanes of a warp (PTX ISA 9.7.9 and 9.7.13): who must come, and what each gets.

use crate::sim::interface::{AtomicOp, Fault, WarpOp, WarpRequest};

/// Lanes of a warp.
pub(crate) const LANES: u32 = 32;

/// What each lane of a warp waits with; `None` for one that runs, waits for something else or has exited.
type Requests = [Option<WarpRequest>; LANES as usize];

/// What a lane gets: the value, and the predicate of a shuffle.
pub(crate) type LaneResult = [u64; 2];

/// The lanes of one warp.
#[derive(Clone, Debug)]
pub(crate) struct Warp {
    /// A bit for each lane that has not exited.
    live: u32,
    /// A bit for each lane that waits for an exchange.
    waiting: u32,
    requests: Requests,
}

impl Warp {
    /// The warps of a block; the last one may have fewer lanes.
    pub(crate) fn of_block(n_threads: u32) -> Vec<Self> {
        let live =
            |first: u32| if n_threads - first >= LANES { u32::MAX } else { (1 << (n_threads - first)) - 1 };
        let warp = |first| Self { live: live(first), waiting: 0, requests: [None; LANES as usize] };
        (0..n_threads).step_by(LANES as usize).map(warp).collect()
    }

    /// A lane has come to an exchange.
    pub(crate) fn arrive(&mut self, lane: u32, request: WarpRequest) {
        self.requests[lane as usize] = Some(request);
        self.waiting |= 1 << lane;
    }

    /// A lane has exited; gives those that wait.
    pub(crate) fn exit(&mut self, lane: u32) -> u32 {
        self.live &= !(1 << lane);
        self.waiting
    }

    /// The exchange that a lane waits for.
    pub(crate) fn op(&self, lane: u32) -> Option<WarpOp> {
        self.requests[lane as usize].map(|request| request.op)
    }

    /// The mask of the exchange that a lane waits for.
    pub(crate) fn mask(&self, lane: u32) -> Option<u32> {
        self.requests[lane as usize].map(|request| request.mask)
    }

    /// Ends the exchange that `lane` waits for if all lanes that it names have come or exited; gives the lanes that
    /// take part, and what each lane gets.
    ///
    /// # Errors
    ///
    /// A fault where lanes that name each other wait with different masks or instructions, so that neither could ever
    /// go on, and where a result is undefined.
    pub(crate) fn complete(
        &mut self,
        lane: u32,
    ) -> Result<Option<(u32, [LaneResult; LANES as usize])>, Fault> {
        let Some(own) = self.requests[lane as usize] else { return Ok(None) };
        if own.mask >> lane & 1 == 0 {
            return Err(Fault::Other(format!("lane {lane} is not in its own mask {:#010x}", own.mask)));
        }
        let here = own.mask & self.live;
        if here & !self.waiting != 0 {
            return Ok(None);
        }
        for other in lanes(here) {
            let request = self.requests[other as usize].expect("a waiting lane has a request");
            if request.mask == own.mask {
                same_use(lane, own.op, other, request.op)?;
            } else if request.mask >> lane & 1 == 0 {
                return Ok(None);
            } else {
                return Err(Fault::Other(format!(
                    "lanes {lane} and {other} of a warp wait for each other with different masks, {:#010x} and {:#010x}",
                    own.mask, request.mask
                )));
            }
        }
        let mut results = [[0; 2]; LANES as usize];
        for lane in lanes(here) {
            results[lane as usize] = result(lane, here, &self.requests)?;
        }
        lanes(here).for_each(|lane| self.requests[lane as usize] = None);
        self.waiting &= !here;
        Ok(Some((here, results)))
    }
}

/// Lanes of a mask, ascending.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = u32> + Clone {
    (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
}

fn same_use(lane: u32, own: WarpOp, other: u32, op: WarpOp) -> Result<(), Fault> {
    let same = match (own, op) {
        (WarpOp::Shuffle { mode: a, .. }, WarpOp::Shuffle { mode: b, .. }) => a == b,
        (WarpOp::Vote { mode: a, .. }, WarpOp::Vote { mode: b, .. }) => a == b,
        (WarpOp::Reduce { op: a, .. }, WarpOp::Reduce { op: b, .. }) => a == b,
        (a, b) => std::mem::discriminant(&a) == std::mem::discriminant(&b),
    };
    if same {
        return Ok(());
    }
    Err(Fault::Other(format!(
        "lanes {lane} and {other} of a warp meet in different instructions, {own:?} and {op:?}"
    )))
}

/// What `lane` gets from a complete exchange among `here`.
///
/// # Errors
///
/// A fault where the result is undefined: a shuffle from a lane that does not take part.
fn result(lane: u32, here: u32, requests: &Requests) -> Result<LaneResult, Fault> {
    let op = |lane: u32| requests[lane as usize].expect("a lane that takes part waits").op;
    Ok(match op(lane) {
        WarpOp::Sync => [0; 2],
        WarpOp::Shuffle { mode, lane: b, clamp, .. } => {
            let (source, in_range) = shuffle_source(mode, lane, b, clamp);
            if here >> source & 1 == 0 {
                let what = format!("lane {lane} shuffles from lane {source}, which does not take part");
                return Err(Fault::Other(what));
            }
            let WarpOp::Shuffle { value, .. } = op(source) else { unreachable!("all lanes shuffle") };
            [value.into(), in_range.into()]
        }
        WarpOp::Vote { mode, .. } => {
            let holds = |lane: &u32| matches!(op(*lane), WarpOp::Vote { predicate: true, .. });
            let ballot = lanes(here).filter(holds).fold(0_u32, |ballot, lane| ballot | 1 << lane);
            [vote(mode, ballot, here), 0]
        }
        WarpOp::Reduce { op: reduction, .. } => {
            let value = |lane| match op(lane) {
                WarpOp::Reduce { value, .. } => value,
                _ => unreachable!("all lanes reduce"),
            };
            [reduce(reduction, lanes(here).map(value))?.into(), 0]
        }
        WarpOp::MatchAny { value } => {
            let equal = |lane: &u32| matches!(op(*lane), WarpOp::MatchAny { value: other } if other == value);
            let found = lanes(here).filter(equal).fold(0_u32, |found, lane| found | 1 << lane);
            [found.into(), 0]
        }
    })
}

/// Source lane of `shfl.sync` and whether it is in range (PTX ISA 9.7.9.6).
fn shuffle_source(mode: u8, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (b, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
    let last = (lane & segment) | (clamp & !segment);
    let (source, in_range) = match mode {
        0 => (lane.wrapping_sub(b), lane as i32 - b as i32 >= last as i32),
        1 => (lane + b, lane + b <= last),
        2 => (lane ^ b, lane ^ b <= last),
        _ => {
            let source = (lane & segment) | (b & !segment);
            (source, source <= last)
        }
    };
    (if in_range { source } else { lane }, in_range)
}

fn vote(mode: u8, ballot: u32, here: u32) -> u64 {
    match mode {
        0 => u64::from(ballot == here),
        1 => u64::from(ballot != 0),
        2 => u64::from(ballot == here || ballot == 0),
        _ => ballot.into(),
    }
}

fn reduce(op: AtomicOp, values: impl Iterator<Item = u32>) -> Result<u32, Fault> {
    let fold: fn(u32, u32) -> u32 = match op {
        AtomicOp::Add => u32::wrapping_add,
        AtomicOp::And => |a, b| a & b,
        AtomicOp::Or => |a, b| a | b,
        AtomicOp::Xor => |a, b| a ^ b,
        AtomicOp::MinUnsigned => u32::min,
        AtomicOp::MaxUnsigned => u32::max,
        AtomicOp::MinSigned => |a, b| (a as i32).min(b as i32) as u32,
        AtomicOp::MaxSigned => |a, b| (a as i32).max(b as i32) as u32,
        other => return Err(Fault::Other(format!("redux.sync has no {other:?}"))),
    };
    Ok(values.reduce(fold).expect("a lane takes part"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(op: impl Fn(u32) -> WarpOp) -> Requests {
        std::array::from_fn(|lane| Some(WarpRequest { mask: u32::MAX, op: op(lane as u32) }))
    }

    fn words(requests: &Requests) -> Vec<u64> {
        (0..LANES).map(|lane| result(lane, u32::MAX, requests).unwrap()[0]).collect()
    }

    #[test]
    fn shuffles() {
        let check = |mode, b: u32, clamp, expect: fn(u64) -> u64| {
            let found = words(&all(|value| WarpOp::Shuffle { mode, value, lane: b, clamp }));
            assert_eq!(found, (0..32).map(expect).collect::<Vec<_>>(), "{mode} {b} {clamp:#x}");
        };
        check(0, 1, 0, |lane| lane.saturating_sub(1));
        check(1, 1, 31, |lane| (lane + 1).min(31));
        check(2, 5, 31, |lane| lane ^ 5);
        check(3, 7, 31, |_| 7);
        // Segments of 8 lanes.
        check(1, 4, 0x181f, |lane| if lane % 8 < 4 { lane + 4 } else { lane });
        check(0, 4, 0x1800, |lane| if lane % 8 >= 4 { lane - 4 } else { lane });
        check(3, 2, 0x181f, |lane| lane / 8 * 8 + 2);
    }

    #[test]
    fn votes_and_reductions() {
        let odd = |mode| words(&all(|lane| WarpOp::Vote { mode, predicate: lane % 2 == 1 }))[0];
        assert_eq!([odd(0), odd(1), odd(2), odd(3)], [0, 1, 0, 0xaaaa_aaaa]);
        let reduced = |op| words(&all(|lane| WarpOp::Reduce { op, value: lane.wrapping_sub(4) }))[9] as u32;
        assert_eq!(reduced(AtomicOp::Add), (31 * 32 / 2) - 4 * 32);
        assert_eq!(reduced(AtomicOp::MinSigned) as i32, -4);
        assert_eq!(reduced(AtomicOp::MinUnsigned), 0);
        assert_eq!(reduced(AtomicOp::MaxSigned), 27);
        assert_eq!(reduced(AtomicOp::MaxUnsigned), u32::MAX);
        let matched = words(&all(|lane| WarpOp::MatchAny { value: (lane % 4).into() }));
        assert_eq!(matched[5], 0x2222_2222);
    }

    #[test]
    fn lanes_must_agree() {
        let sync = |mask| WarpRequest { mask, op: WarpOp::Sync };
        let warp = |requests: &[(u32, WarpRequest)]| {
            let mut warp = Warp::of_block(32).remove(0);
            requests.iter().for_each(|&(lane, request)| warp.arrive(lane, request));
            warp
        };
        let here = |mut warp: Warp, lane| warp.complete(lane).map(|done| done.map(|(here, _)| here));
        assert_eq!(here(warp(&[(0, sync(0b11))]), 0), Ok(None));
        assert_eq!(here(warp(&[(0, sync(0b11)), (1, sync(0b11))]), 1), Ok(Some(0b11)));
        let mut left = warp(&[(0, sync(0b11))]);
        assert_eq!(left.exit(1), 0b1);
        assert_eq!(here(left, 0), Ok(Some(0b1)), "an exited lane is not waited for");
        let other_group = warp(&[(0, sync(0b11)), (1, sync(0b110))]);
        assert_eq!(here(other_group, 0), Ok(None), "lane 1 may come when its own group is done");
        let refused = |requests: &[(u32, WarpRequest)], lane| assert!(here(warp(requests), lane).is_err());
        refused(&[(0, sync(0b11)), (1, sync(0b111))], 0);
        refused(&[(0, sync(0b11)), (1, WarpRequest { mask: 0b11, op: WarpOp::MatchAny { value: 0 } })], 1);
        refused(&[(5, sync(0b1))], 5);
        let shuffle = WarpOp::Shuffle { mode: 3, value: 0, lane: 9, clamp: 31 };
        refused(&[(0, WarpRequest { mask: 1, op: shuffle })], 0);
    }

    #[test]
    fn the_last_warp_may_be_short() {
        let warps = Warp::of_block(70);
        assert_eq!(warps.iter().map(|warp| warp.live.count_ones()).collect::<Vec<_>>(), [32, 32, 6]);
    }
}
