//! What a device crate's `Cargo.toml` says.

/// The library's name: `[lib] name`, or the package's with underscores.
pub(crate) fn lib_name(manifest: &str) -> Option<String> {
    let mut section = "";
    let mut package = None;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if let Some((key, value)) = line.split_once('=')
            && key.trim() == "name"
        {
            let value = value.trim().trim_matches('"').replace('-', "_");
            match section {
                "[lib]" => return Some(value),
                "[package]" => package = Some(value),
                _ => {}
            }
        }
    }
    package
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_manifest() {
        for (manifest, name) in [
            ("[package]\nname = \"symmem-device\"\n", Some("symmem_device")),
            ("[package]\nname=\"a\"\n[lib]\nname = \"b\"\n", Some("b")),
            ("[package]\nname = \"a\"\n[dependencies.x]\nname = \"c\"\n", Some("a")),
            ("[workspace]\nmembers = []\n", None),
        ] {
            assert_eq!(lib_name(manifest).as_deref(), name, "{manifest}");
        }
    }
}
