//! Whether multicast may be used at all, decided from the environment.
//!
//! Off means that no `cuMulticast*` function is ever looked up or called. A machine that switched multicast off for
//! its other libraries has switched it off for this one.

use std::fmt;

/// Variables that switch multicast off, each with the answer that does so.
const SWITCHES: [(&str, bool); 4] = [
    ("SYMMEM_MULTICAST", false),
    ("NCCL_NVLS_ENABLE", false),
    ("NVSHMEM_DISABLE_NVLS", true),
    ("TORCH_SYMM_MEM_DISABLE_MULTICAST", true),
];

/// Whether multicast may be used, and what forbids it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MulticastSwitch {
    /// Nothing forbids it.
    On,
    /// A variable forbids it.
    Off {
        /// The variable with its value, e.g. `NCCL_NVLS_ENABLE=0`.
        by: String,
    },
}

impl MulticastSwitch {
    /// Decides from the variables that `lookup` knows.
    ///
    /// `0`, `false`, `no`, `off`, `n` mean no and `1`, `true`, `yes`, `on`, `y` mean yes, in any case; other values
    /// decide nothing. The first variable that forbids multicast is named.
    pub fn decide(lookup: impl Fn(&'static str) -> Option<String>) -> Self {
        let forbids = |&(name, answer): &(&'static str, bool)| {
            let value = lookup(name)?;
            (truth(&value) == Some(answer)).then(|| format!("{name}={}", value.trim()))
        };
        SWITCHES.iter().find_map(forbids).map_or(Self::On, |by| Self::Off { by })
    }

    /// Decides from the environment of this process.
    pub fn from_env() -> Self {
        Self::decide(|name| std::env::var(name).ok())
    }

    /// What the variables wish: no where one forbids multicast, yes where `SYMMEM_MULTICAST` asks for it.
    pub fn wish(lookup: impl Fn(&'static str) -> Option<String>) -> Option<bool> {
        match Self::decide(&lookup) {
            Self::Off { .. } => Some(false),
            Self::On => lookup("SYMMEM_MULTICAST").and_then(|value| truth(&value)),
        }
    }

    /// Whether multicast may be used.
    pub fn is_on(&self) -> bool {
        *self == Self::On
    }
}

impl fmt::Display for MulticastSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On => write!(f, "on"),
            Self::Off { by } => write!(f, "off ({by})"),
        }
    }
}

fn truth(value: &str) -> Option<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" | "y" => Some(true),
        "0" | "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], off_by: Option<&str>) {
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        let expected = off_by.map_or(MulticastSwitch::On, |by| MulticastSwitch::Off { by: by.into() });
        assert_eq!(MulticastSwitch::decide(lookup), expected, "{variables:?}");
    }

    #[test]
    fn each_variable_forbids_and_only_with_its_own_answer() {
        check(&[], None);
        check(&[("SYMMEM_MULTICAST", "0")], Some("SYMMEM_MULTICAST=0"));
        check(&[("SYMMEM_MULTICAST", "1")], None);
        check(&[("NCCL_NVLS_ENABLE", "0")], Some("NCCL_NVLS_ENABLE=0"));
        check(&[("NCCL_NVLS_ENABLE", "1")], None);
        check(&[("NCCL_NVLS_ENABLE", "2")], None);
        check(&[("NVSHMEM_DISABLE_NVLS", "1")], Some("NVSHMEM_DISABLE_NVLS=1"));
        check(&[("NVSHMEM_DISABLE_NVLS", "0")], None);
        check(&[("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")], Some("TORCH_SYMM_MEM_DISABLE_MULTICAST=1"));
        check(&[("TORCH_SYMM_MEM_DISABLE_MULTICAST", "0")], None);
    }

    #[test]
    fn a_yes_of_our_own_does_not_overrule_a_no_of_another() {
        check(&[("SYMMEM_MULTICAST", "1"), ("NCCL_NVLS_ENABLE", "0")], Some("NCCL_NVLS_ENABLE=0"));
    }

    #[test]
    fn a_wish_is_ours_where_nobody_forbids_it() {
        let wish = |variables: &[(&str, &str)]| {
            let found = |name| variables.iter().find(|(known, _)| *known == name);
            MulticastSwitch::wish(|name| found(name).map(|(_, value)| value.to_string()))
        };
        assert_eq!(wish(&[]), None);
        assert_eq!(wish(&[("NCCL_NVLS_ENABLE", "1")]), None);
        assert_eq!(wish(&[("SYMMEM_MULTICAST", "1")]), Some(true));
        assert_eq!(wish(&[("SYMMEM_MULTICAST", "0")]), Some(false));
        assert_eq!(wish(&[("SYMMEM_MULTICAST", "1"), ("NVSHMEM_DISABLE_NVLS", "1")]), Some(false));
    }

    #[test]
    fn words_and_blanks_count() {
        check(&[("SYMMEM_MULTICAST", " Off ")], Some("SYMMEM_MULTICAST=Off"));
        check(&[("NVSHMEM_DISABLE_NVLS", "TRUE")], Some("NVSHMEM_DISABLE_NVLS=TRUE"));
        check(&[("SYMMEM_MULTICAST", "")], None);
    }
}
