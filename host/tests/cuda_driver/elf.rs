//! The needed list of an ELF file of 64 bits (ELF specification, "Dynamic Section").

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;

/// Names of the libraries that the file needs to start; `None` when it is no such file.
pub(crate) fn needed(file: &[u8]) -> Option<Vec<String>> {
    if file.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let headers = program_headers(file)?;
    let dynamic = headers.iter().find(|header| header.kind == PT_DYNAMIC)?;
    let entries: Vec<_> = (0..dynamic.len / 16)
        .map_while(|i| {
            Some((word(file, dynamic.offset + i * 16, 8)?, word(file, dynamic.offset + i * 16 + 8, 8)?))
        })
        .take_while(|(tag, _)| *tag != DT_NULL)
        .collect();
    let address = entries.iter().find(|(tag, _)| *tag == DT_STRTAB)?.1;
    let holds = |h: &&Header| h.kind == PT_LOAD && (h.address..h.address + h.len).contains(&address);
    let strings = headers.iter().find(holds).map(|h| address - h.address + h.offset)?;
    let names = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED);
    names.map(|(_, at)| text(file, strings + at)).collect()
}

struct Header {
    kind: u64,
    offset: u64,
    address: u64,
    len: u64,
}

fn program_headers(file: &[u8]) -> Option<Vec<Header>> {
    let (start, size, n) = (word(file, 32, 8)?, word(file, 54, 2)?, word(file, 56, 2)?);
    let header = |at| {
        let field = |offset, bytes| word(file, at + offset, bytes);
        Some(Header { kind: field(0, 4)?, offset: field(8, 8)?, address: field(16, 8)?, len: field(32, 8)? })
    };
    (0..n).map(|i| header(start + i * size)).collect()
}

fn word(file: &[u8], at: u64, bytes: usize) -> Option<u64> {
    let mut word = [0; 8];
    word[..bytes].copy_from_slice(file.get(at as usize..at as usize + bytes)?);
    Some(u64::from_le_bytes(word))
}

fn text(file: &[u8], at: u64) -> Option<String> {
    let text = std::ffi::CStr::from_bytes_until_nul(file.get(at as usize..)?).ok()?;
    Some(text.to_string_lossy().into_owned())
}
