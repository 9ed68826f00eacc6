//! The symmetric space as a picture: what is mapped where, for whom, and which windows lie in it.

mod svg;

use crate::backend::PhysicalHandle;
use crate::comm::{Comm, lock};
use crate::symmetric::ledger::{Bound, Mapped};
use crate::symmetric::{FlatOffset, Multicast, SymmetricSpace, WindowInner};
use std::fmt;
use std::sync::Arc;

/// What is drawn.
#[derive(Debug)]
struct Picture {
    comm_id: u64,
    rank: u32,
    n_ranks: u32,
    base: u64,
    stride_bytes: u64,
    /// Where the multicast space is, or why there is none.
    multicast: String,
    /// By offset.
    rows: Vec<Row>,
}

/// All ranks' memory at one offset.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    flat_bytes: u64,
    /// Each rank's mapping; `None` if this process has none of that rank here.
    cells: Vec<Option<Cell>>,
    windows: Vec<Label>,
    /// Why it has no multicast where the communicator has.
    unicast_because: Option<String>,
}

/// One rank's mapping.
#[derive(Debug, PartialEq, Eq)]
struct Cell {
    len_bytes: u64,
    physical: PhysicalHandle,
    devices: Vec<u32>,
    has_multicast: bool,
}

/// A window that starts in a row.
#[derive(Debug, PartialEq, Eq)]
struct Label {
    number: u64,
    flat_bytes: u64,
    len_bytes: u64,
    user_address: Option<u64>,
}

impl Comm {
    /// The symmetric space as text: what this process has mapped of each rank and where, the physical memory behind it,
    /// who may access it, what is bound to multicast and why what is not is not, and this rank's windows.
    pub fn describe(&self) -> String {
        self.picture().to_string()
    }

    /// As [`Self::describe`], as a drawing in SVG.
    pub fn describe_svg(&self) -> String {
        self.picture().svg()
    }

    fn picture(&self) -> Picture {
        let windows = lock(&self.shared.windows).live();
        Picture::new((self.id, self.rank, self.n_ranks()), &self.space, &self.multicast, &windows)
    }
}

impl Picture {
    fn new(
        (comm_id, rank, n_ranks): (u64, u32, u32),
        space: &SymmetricSpace,
        multicast: &Multicast,
        windows: &[Arc<WindowInner>],
    ) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for mapped in space.ledger().all() {
            if rows.last().is_none_or(|row| row.flat_bytes != mapped.flat_bytes) {
                rows.push(Row::new(mapped.flat_bytes, n_ranks));
            }
            rows.last_mut().expect("there is one").put(mapped);
        }
        for window in windows {
            let label = Label::new(window);
            let row = rows.iter_mut().rfind(|row| row.flat_bytes <= label.flat_bytes);
            row.into_iter().for_each(|row| row.windows.push(Label::new(window)));
        }
        rows.iter_mut().for_each(|row| row.windows.sort_by_key(|label| (label.flat_bytes, label.number)));
        let multicast = match multicast {
            Multicast::On(its) => {
                let (address, object) = (its.address(FlatOffset::new(0)), its.object().handle().0);
                format!(
                    "multicast space: {} from {address:#x}, object {object:#x}",
                    human(space.stride_bytes())
                )
            }
            Multicast::Off { reason } => format!("no multicast: {reason}"),
        };
        let (base, stride_bytes) = (space.base_uc(), space.stride_bytes());
        Self { comm_id, rank, n_ranks, base, stride_bytes, multicast, rows }
    }

    fn title(&self) -> String {
        format!(
            "symmetric space of communicator {}, as the process of rank {} sees it: {} ranks × {} from {:#x}",
            self.comm_id,
            self.rank,
            self.n_ranks,
            human(self.stride_bytes),
            self.base
        )
    }

    /// Where the last mapping ends, and how much is free behind it.
    fn free(&self) -> (u64, u64) {
        let end = self.rows.iter().map(Row::end).max().unwrap_or(0);
        (end, self.stride_bytes.saturating_sub(end))
    }
}

impl Row {
    fn new(flat_bytes: u64, n_ranks: u32) -> Self {
        let cells = (0..n_ranks).map(|_| None).collect();
        Self { flat_bytes, cells, windows: Vec::new(), unicast_because: None }
    }

    fn put(&mut self, mapped: Mapped) {
        let Mapped { rank, len_bytes, physical, devices, multicast, .. } = mapped;
        let has_multicast = multicast == Bound::Yes;
        if let Some(cell) = self.cells.get_mut(rank as usize) {
            *cell = Some(Cell { len_bytes, physical, devices, has_multicast });
        }
        if let Bound::Refused { reason } = multicast {
            self.unicast_because.get_or_insert(reason);
        }
    }

    fn len_bytes(&self) -> u64 {
        self.cells.iter().flatten().map(|cell| cell.len_bytes).max().unwrap_or(0)
    }

    fn end(&self) -> u64 {
        self.flat_bytes + self.len_bytes()
    }

    /// What the space itself has here.
    fn name(&self) -> Option<&'static str> {
        (self.flat_bytes == 0).then_some("DevBase: barriers, LL slots, poison word")
    }
}

impl Label {
    fn new(window: &WindowInner) -> Self {
        Self {
            number: window.number,
            flat_bytes: window.flat(Default::default()).bytes,
            len_bytes: window.len_bytes,
            user_address: window.user_address,
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "window {}: {} at {:#x}", self.number, human(self.len_bytes), self.flat_bytes)?;
        self.user_address.map_or(Ok(()), |address| write!(f, ", the caller's {address:#x}"))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices: Vec<_> = self.devices.iter().map(u32::to_string).collect();
        write!(f, "{:#x}, {}, rw {}", self.physical.0, human(self.len_bytes), devices.join(" "))?;
        if self.has_multicast { write!(f, ", mc") } else { Ok(()) }
    }
}

/// A table: a line a mapping, the windows in it below.
impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title())?;
        writeln!(f, "{}", self.multicast)?;
        writeln!(
            f,
            "each cell: physical handle, length, rights of devices (rw: load and store), mc if bound to multicast\n"
        )?;
        let texts: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.cells.iter().map(cell_text).collect()).collect();
        let width = texts.iter().flatten().map(String::len).max().unwrap_or(0).max("rank 00".len());
        write!(f, "{:<14}", "offset")?;
        (0..self.n_ranks).try_for_each(|rank| write!(f, " │ {:<width$}", format!("rank {rank}")))?;
        writeln!(f)?;
        for (row, cells) in self.rows.iter().zip(&texts) {
            write!(f, "{:<14}", format!("{:#x}", row.flat_bytes))?;
            cells.iter().try_for_each(|cell| write!(f, " │ {cell:<width$}"))?;
            writeln!(f)?;
            row.name().map_or(Ok(()), |name| writeln!(f, "  {name}"))?;
            row.unicast_because.iter().try_for_each(|reason| writeln!(f, "  unicast alone: {reason}"))?;
            row.windows.iter().try_for_each(|label| writeln!(f, "  └ {label}"))?;
        }
        let (end, free) = self.free();
        writeln!(f, "{:<14} │ {} never used", format!("{end:#x}"), human(free))
    }
}

fn cell_text(cell: &Option<Cell>) -> String {
    cell.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string)
}

/// Bytes in the largest unit in which they are at least 1.
fn human(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = (bytes.max(1).ilog2() as usize / 10).min(units.len() - 1);
    let scale = 1u64 << (10 * unit);
    match bytes % scale {
        0 => format!("{} {}", bytes / scale, units[unit]),
        _ => format!("{:.1} {}", bytes as f64 / scale as f64, units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Picture {
        let cell = |physical, len_bytes| {
            let (physical, devices) = (PhysicalHandle(physical), vec![0, 1]);
            Some(Cell { len_bytes, physical, devices, has_multicast: physical.0 == 1 })
        };
        let mut windows = Row::new(4 << 20, 2);
        windows.cells = vec![cell(7, 2 << 20), cell(8, 4 << 20)];
        windows.windows = vec![
            Label { number: 0, flat_bytes: 4 << 20, len_bytes: 4096, user_address: None },
            Label { number: 3, flat_bytes: (4 << 20) + 512, len_bytes: 100, user_address: Some(0xbeef00) },
        ];
        windows.unicast_because = Some("rank 1 failed".into());
        let mut base = Row::new(0, 2);
        base.cells = vec![cell(1, 4 << 20), None];
        Picture {
            comm_id: 5,
            rank: 1,
            n_ranks: 2,
            base: 0x7000,
            stride_bytes: 64 << 20,
            multicast: "multicast space: 64 MiB from 0x9000, object 0x3".into(),
            rows: vec![base, windows],
        }
    }

    #[test]
    fn says_all_there_is() {
        let text = picture().to_string();
        for needle in [
            "communicator 5",
            "2 ranks × 64 MiB from 0x7000",
            "0x400000       │ 0x7, 2 MiB, rw 0 1     │ 0x8, 4 MiB, rw 0 1",
            "DevBase",
            "0x1, 4 MiB, rw 0 1, mc",
            "multicast space: 64 MiB from 0x9000, object 0x3\n",
            "  unicast alone: rank 1 failed\n",
            "│ –",
            "window 0: 4 KiB at 0x400000\n",
            "window 3: 100 bytes at 0x400200, the caller's 0xbeef00",
            "0x800000       │ 56 MiB never used",
        ] {
            assert!(text.contains(needle), "{needle} is not in\n{text}");
        }
    }

    #[test]
    fn the_drawing_has_the_same_words_and_is_well_formed() {
        let svg = picture().svg();
        for needle in ["rank 0", "rank 1", "0x400000", "window 3", "DevBase", "0x8, 4 MiB, rw 0 1", "56 MiB"]
        {
            assert!(svg.contains(needle), "{needle} is not in\n{svg}");
        }
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }

    #[test]
    fn bytes_are_exact_where_they_can_be() {
        let cases =
            [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1 KiB"), (1536, "1.5 KiB"), (64 << 30, "64 GiB")];
        for (bytes, text) in cases {
            assert_eq!(human(bytes), text);
        }
    }
}
