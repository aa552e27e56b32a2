//! Energy that the processors of this machine have used, as RAPL counts it (Linux powercap).

use std::fs;
use std::path::{Path, PathBuf};

/// Where Linux shows the counters.
const POWERCAP: &str = "/sys/class/powercap";

/// The energy counters of all processor packages.
#[derive(Debug, Clone)]
pub struct EnergyMeter {
    packages: Vec<Package>,
}

#[derive(Debug, Clone)]
struct Package {
    /// File with the energy in µJ.
    energy: PathBuf,
    /// The counter starts again at 0 after this.
    max_uj: u64,
}

/// The counters at one time, in µJ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnergyReading(Vec<u64>);

impl EnergyMeter {
    /// The counters of this machine; `None` if it has none that this process can read.
    pub fn open() -> Option<Self> {
        Self::in_folder(Path::new(POWERCAP))
    }

    fn in_folder(folder: &Path) -> Option<Self> {
        let entries = fs::read_dir(folder).ok()?.flatten();
        let mut packages: Vec<_> = entries.filter_map(|entry| Package::open(&entry)).collect();
        packages.sort_by(|a, b| a.energy.cmp(&b.energy));
        (!packages.is_empty()).then_some(Self { packages })
    }

    /// Reads all counters; `None` if one of them cannot be read any more.
    pub fn read(&self) -> Option<EnergyReading> {
        let readings = self.packages.iter().map(|package| number(&package.energy));
        readings.collect::<Option<_>>().map(EnergyReading)
    }

    /// Joules between two readings. A counter may have started again once meanwhile.
    #[expect(clippy::cast_precision_loss, reason = "no figure needs 16 digits")]
    pub fn joules(&self, from: &EnergyReading, to: &EnergyReading) -> f64 {
        let counters = self.packages.iter().zip(from.0.iter().zip(&to.0));
        let uj = counters.map(|(package, (&from, &to))| {
            to.checked_sub(from).unwrap_or_else(|| (package.max_uj - from.min(package.max_uj)) + to)
        });
        uj.sum::<u64>() as f64 / 1e6
    }
}

impl Package {
    /// `None` if this is not a whole package, or cannot be read. `intel-rapl:0` is a package, `intel-rapl:0:0` a part of it; AMD's
    /// processors have the same names.
    fn open(entry: &fs::DirEntry) -> Option<Self> {
        let name = entry.file_name().into_string().ok()?;
        let number_of_package = name.strip_prefix("intel-rapl:")?;
        number_of_package.parse::<u32>().ok()?;
        let path = entry.path();
        let energy = path.join("energy_uj");
        number(&energy)?;
        Some(Self { energy, max_uj: number(&path.join("max_energy_range_uj"))? })
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty folder, removed at the end.
    struct TestFolder(PathBuf);

    impl TestFolder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("sluice-energy-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for TestFolder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn package(folder: &Path, name: &str, uj: u64) {
        let path = folder.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("energy_uj"), format!("{uj}\n")).unwrap();
        fs::write(path.join("max_energy_range_uj"), "10000000\n").unwrap();
    }

    #[test]
    fn packages_are_added_and_a_counter_may_start_again() {
        let folder = TestFolder::new("packages");
        package(&folder.0, "intel-rapl:0", 9_000_000);
        package(&folder.0, "intel-rapl:1", 1_000_000);
        // A part of the first, and the controller of all of them.
        package(&folder.0, "intel-rapl:0:0", 1);
        package(&folder.0, "intel-rapl", 1);
        let meter = EnergyMeter::in_folder(&folder.0).unwrap();
        let before = meter.read().unwrap();
        package(&folder.0, "intel-rapl:0", 500_000);
        package(&folder.0, "intel-rapl:1", 3_000_000);
        let joules = meter.joules(&before, &meter.read().unwrap());
        assert!((joules - 3.5).abs() < 1e-9, "{joules}");
    }

    #[test]
    fn a_machine_without_counters_has_no_meter() {
        let folder = TestFolder::new("none");
        assert!(EnergyMeter::in_folder(&folder.0).is_none());
        assert!(EnergyMeter::in_folder(&folder.0.join("missing")).is_none());
    }
}
