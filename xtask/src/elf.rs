//! What a 64-bit little-endian ELF file needs from the machine it runs on: the libraries of its dynamic section and the
//! versions of their symbols (System V ABI, "Dynamic Linking").

use anyhow::{Context, Result, ensure};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;

/// What a binary needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DynamicFacts {
    /// Libraries, in order.
    pub(crate) needed: Vec<String>,
    /// Names in the dynamic string table, version names such as `GLIBC_2.34` among them.
    names: Vec<String>,
}

impl DynamicFacts {
    /// The newest version of glibc that a symbol asks for.
    pub(crate) fn glibc_max(&self) -> Option<(u32, u32)> {
        let versions = self.names.iter().filter_map(|name| {
            let (major, rest) = name.strip_prefix("GLIBC_")?.split_once('.')?;
            Some((major.parse().ok()?, rest.split('.').next()?.parse().ok()?))
        });
        versions.max()
    }
}

/// Reads the dynamic section.
///
/// # Errors
///
/// The bytes are no 64-bit little-endian ELF file with a dynamic section, or end too early.
pub(crate) fn dynamic_facts(bytes: &[u8]) -> Result<DynamicFacts> {
    ensure!(bytes.starts_with(b"\x7fELF\x02\x01"), "no 64-bit little-endian ELF file");
    let file = File { bytes, segments: segments(bytes)? };
    let dynamic =
        file.segments.iter().find(|segment| segment.kind == PT_DYNAMIC).context("no dynamic section")?;
    let mut entries = Vec::new();
    for at in (dynamic.offset..dynamic.offset + dynamic.file_len).step_by(16) {
        let (tag, value) = (u64_at(bytes, at)?, u64_at(bytes, at + 8)?);
        if tag == DT_NULL {
            break;
        }
        entries.push((tag, value));
    }
    let value = |wanted| entries.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
    let start = file.offset_of(value(DT_STRTAB).context("no string table")?)?;
    let strings = slice(bytes, start, value(DT_STRSZ).context("no string table size")?)?;
    let needed = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED);
    let needed = needed.map(|(_, offset)| string_at(strings, *offset)).collect::<Result<_>>()?;
    let names =
        strings.split(|&byte| byte == 0).map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    Ok(DynamicFacts { needed, names })
}

struct File<'a> {
    bytes: &'a [u8],
    segments: Vec<Segment>,
}

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    file_len: u64,
}

impl File<'_> {
    /// Where an address of the loaded program lies in the file.
    fn offset_of(&self, address: u64) -> Result<u64> {
        let loads = self.segments.iter().filter(|segment| segment.kind == PT_LOAD);
        let mut inside = loads.filter(|load| (load.address..load.address + load.file_len).contains(&address));
        let load = inside
            .next()
            .with_context(|| format!("address {address:#x} is not in {} bytes", self.bytes.len()))?;
        Ok(load.offset + (address - load.address))
    }
}

fn segments(bytes: &[u8]) -> Result<Vec<Segment>> {
    let table = u64_at(bytes, 32)?;
    let (entry_len, count) = (u16_at(bytes, 54)?, u16_at(bytes, 56)?);
    (0..u64::from(count))
        .map(|index| {
            let at = table + index * u64::from(entry_len);
            let kind = u32::from_le_bytes(slice(bytes, at, 4)?.try_into()?);
            let [offset, address, file_len] = [8, 16, 32].map(|field| u64_at(bytes, at + field));
            Ok(Segment { kind, offset: offset?, address: address?, file_len: file_len? })
        })
        .collect()
}

fn slice(bytes: &[u8], start: u64, len: u64) -> Result<&[u8]> {
    let start = usize::try_from(start)?;
    let end = start.checked_add(usize::try_from(len)?);
    end.and_then(|end| bytes.get(start..end))
        .with_context(|| format!("the file ends before {start:#x} + {len:#x}"))
}

fn u64_at(bytes: &[u8], at: u64) -> Result<u64> {
    Ok(u64::from_le_bytes(slice(bytes, at, 8)?.try_into()?))
}

fn u16_at(bytes: &[u8], at: u64) -> Result<u16> {
    Ok(u16::from_le_bytes(slice(bytes, at, 2)?.try_into()?))
}

fn string_at(strings: &[u8], offset: u64) -> Result<String> {
    let tail = strings.get(usize::try_from(offset)?..).context("a name outside the string table")?;
    let end = tail.iter().position(|&byte| byte == 0).context("a name without an end")?;
    Ok(String::from_utf8_lossy(&tail[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_needs_libc_and_no_cuda() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let facts = dynamic_facts(&bytes).unwrap();
        assert!(facts.needed.iter().any(|library| library.starts_with("libc.so")), "{facts:?}");
        assert!(!facts.needed.iter().any(|library| library.starts_with("libcuda")), "{:?}", facts.needed);
        assert!(facts.glibc_max() > Some((2, 0)), "{:?}", facts.glibc_max());
    }

    #[test]
    fn damaged_files_are_errors() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for damaged in [&b""[..], b"\x7fELF", b"#!/bin/sh", &bytes[..70], &bytes[..4096]] {
            assert!(dynamic_facts(damaged).is_err());
        }
    }
}
