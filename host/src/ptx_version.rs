//! Which CUDA version reads which PTX (PTX ISA, "PTX Release History").

use crate::{Error, ErrorKind, Result};

/// PTX versions, each with the first CUDA version whose driver reads it, where the two do not run in step.
const OUT_OF_STEP: [((u32, u32), (u32, u32)); 9] = [
    ((6, 0), (9, 0)),
    ((6, 1), (9, 1)),
    ((6, 2), (9, 2)),
    ((6, 3), (10, 0)),
    ((6, 4), (10, 1)),
    ((6, 5), (10, 2)),
    ((8, 6), (12, 7)),
    ((8, 7), (12, 8)),
    ((8, 8), (12, 9)),
];

/// The first CUDA version whose driver reads PTX of `version`.
///
/// From PTX 7.0 on, PTX x.y came with CUDA (x + 4).y but for the versions in a table.
pub fn first_cuda(version: (u32, u32)) -> (u32, u32) {
    match OUT_OF_STEP.iter().find(|(ptx, _)| *ptx == version) {
        Some((_, cuda)) => *cuda,
        None => (version.0.saturating_add(4), version.1),
    }
}

/// The version that a PTX text states in its `.version` directive, which stands before all else but comments.
///
/// # Errors
/// [`ErrorKind::InvalidPtx`], naming `origin`, when the text does not open with one.
pub fn stated(ptx: &str, origin: &str) -> Result<(u32, u32)> {
    let directive =
        skip_comments(ptx).strip_prefix(".version").and_then(|rest| rest.split_whitespace().next());
    let version = directive.and_then(|text| text.split_once('.'));
    let parsed = version.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parsed.ok_or_else(|| {
        let log = "the text does not open with a `.version` directive such as `.version 8.4`";
        Error::from(ErrorKind::InvalidPtx { origin: origin.into(), log: log.into() })
    })
}

/// Compares the PTX with the highest CUDA version that the driver supports and gives the PTX's version.
///
/// # Errors
/// [`ErrorKind::DriverTooOld`] with all versions, or [`ErrorKind::InvalidPtx`] where the text states none.
pub fn check_driver(driver: (u32, u32), ptx: &str, origin: &str) -> Result<(u32, u32)> {
    let version = stated(ptx, origin)?;
    let needed = first_cuda(version);
    if driver < needed {
        return Err(ErrorKind::DriverTooOld { driver, ptx: version, needed }.into());
    }
    Ok(version)
}

fn skip_comments(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        let end = match text.get(..2) {
            Some("//") => text.find('\n'),
            Some("/*") => text.find("*/").map(|start| start + 2),
            _ => return text,
        };
        text = end.map_or("", |end| &text[end..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_pairs() {
        let pairs = [
            ((7, 0), (11, 0)),
            ((7, 8), (11, 8)),
            ((8, 0), (12, 0)),
            ((8, 1), (12, 1)),
            ((8, 4), (12, 4)),
            ((8, 5), (12, 5)),
            ((8, 6), (12, 7)),
            ((8, 7), (12, 8)),
            ((8, 8), (12, 9)),
            ((9, 0), (13, 0)),
            ((6, 5), (10, 2)),
        ];
        pairs.iter().for_each(|(ptx, cuda)| assert_eq!(first_cuda(*ptx), *cuda, "PTX {ptx:?}"));
    }

    #[test]
    fn newer_ptx_never_needs_an_older_driver() {
        let versions = (6..12).flat_map(|major| (0..10).map(move |minor| (major, minor)));
        let real = versions.filter(|version| !matches!(version, (6, 6..) | (7, 9..) | (8, 9..)));
        let needed: Vec<_> = real.map(first_cuda).collect();
        assert!(needed.is_sorted(), "{needed:?}");
    }

    fn check_stated(ptx: &str, expected: Option<(u32, u32)>) {
        assert_eq!(stated(ptx, "x.ptx").ok(), expected, "{ptx:?}");
    }

    #[test]
    fn reads_the_directive() {
        check_stated(".version 8.4\n.target sm_90\n", Some((8, 4)));
        check_stated("//\n// made by a compiler, .version 1.0\n//\n\n  .version\t7.8\n", Some((7, 8)));
        check_stated("/* .version 1.0\n */ .version 9.0", Some((9, 0)));
        check_stated("", None);
        check_stated("// only a comment", None);
        check_stated("/* open", None);
        check_stated(".target sm_90\n.version 8.4\n", None);
        check_stated(".version eight.4", None);
        check_stated(".version 8", None);
        check_stated("é", None);
    }

    #[test]
    fn an_old_driver_is_named_with_both_versions() {
        assert_eq!(check_driver((12, 4), ".version 8.4", "x.ptx").unwrap(), (8, 4));
        let error = check_driver((12, 2), ".version 8.4", "x.ptx").unwrap_err();
        let expected = ErrorKind::DriverTooOld { driver: (12, 2), ptx: (8, 4), needed: (12, 4) };
        assert_eq!(error.kind(), &expected);
    }
}
