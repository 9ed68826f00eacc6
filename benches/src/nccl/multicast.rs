//! Whether NCCL may be loaded: it uses NVLink multicast by itself unless it is told not to.

use symmem::multicast_switch::MulticastSwitch;

/// The variable that NCCL reads.
const SWITCH: &str = "NCCL_NVLS_ENABLE";

/// What is known of NCCL's multicast, for the header of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Multicast {
    /// NCCL is told to leave it alone.
    Off,
    /// NCCL decides.
    Allowed,
}

/// Whether NCCL leaves multicast alone, or may use it.
///
/// Only NCCL's own variable binds NCCL, so the other switches that this library heeds are not enough; where one of them is
/// set, not even the option overrules it.
///
/// # Errors
///
/// Why NCCL must not be loaded, and what to do.
pub(crate) fn permit(
    is_allowed: bool,
    variable: impl Fn(&'static str) -> Option<String>,
) -> Result<Multicast, String> {
    // NCCL reads the variable as a number; 0 alone is off in every version.
    if variable(SWITCH).is_some_and(|value| value.trim() == "0") {
        return Ok(Multicast::Off);
    }
    match MulticastSwitch::decide(&variable) {
        MulticastSwitch::Off { by } => Err(format!(
            "multicast is switched off by {by}, which NCCL does not heed; set {SWITCH}=0 too, so that NCCL leaves it alone"
        )),
        MulticastSwitch::On if is_allowed => Ok(Multicast::Allowed),
        MulticastSwitch::On => Err(format!(
            "NCCL uses NVLink multicast unless {SWITCH}=0 is set, which leaves it to symmem alone to ask for it; set that, \
             or allow NCCL to use it by --nccl-multicast"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permitted(is_allowed: bool, variables: &[(&str, &str)]) -> Result<Multicast, String> {
        permit(is_allowed, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn nccl_is_loaded_only_where_its_own_switch_is_off_or_it_may_use_multicast() {
        let off = [("NCCL_NVLS_ENABLE", "0"), ("NVSHMEM_DISABLE_NVLS", "1")];
        assert_eq!(permitted(false, &off), Ok(Multicast::Off));
        assert_eq!(permitted(true, &off), Ok(Multicast::Off));
        assert_eq!(permitted(true, &[]), Ok(Multicast::Allowed));
        type Variables<'a> = &'a [(&'a str, &'a str)];
        let refused: [(bool, Variables<'_>, &str); 7] = [
            (false, &[], "--nccl-multicast"),
            (false, &[("NCCL_NVLS_ENABLE", "1")], "--nccl-multicast"),
            (false, &[("NCCL_NVLS_ENABLE", "2")], "NCCL_NVLS_ENABLE=0"),
            (true, &[("SYMMEM_MULTICAST", "0")], "SYMMEM_MULTICAST=0, which NCCL does not heed"),
            (true, &[("NVSHMEM_DISABLE_NVLS", "1"), ("NCCL_NVLS_ENABLE", "1")], "NVSHMEM_DISABLE_NVLS=1"),
            (true, &[("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")], "TORCH_SYMM_MEM_DISABLE_MULTICAST=1"),
            // Off for this library's reading, no number for NCCL's.
            (true, &[("NCCL_NVLS_ENABLE", "false")], "set NCCL_NVLS_ENABLE=0"),
        ];
        for (is_allowed, variables, needle) in refused {
            let reason = permitted(is_allowed, variables).expect_err("it must not be loaded");
            assert!(reason.contains(needle), "{variables:?}: {reason}");
        }
    }
}
