//! All controllers and experiments by name: those of this program, and those of a folder.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;
use sluice_base::sort_by;

use super::check::{check_controller, check_experiment};
use super::{ControllerRow, Experiment, metrics};

/// Files of this program: name without extension, and text.
macro_rules! embedded {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../study/", $folder, "/", $name, ".toml")))),*]
    };
}

include!("embedded.rs");

/// Longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Controllers and experiments by name of file.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    /// The controllers.
    pub controllers: BTreeMap<String, ControllerRow>,
    /// The experiments.
    pub experiments: BTreeMap<String, Experiment>,
}

/// A file that is wrong, or a name that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionError {
    /// The file, as it was named.
    pub file: String,
    /// What is wrong there, with the place in it.
    pub why: String,
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.why)
    }
}

impl std::error::Error for DefinitionError {}

impl Catalogue {
    /// The controllers and experiments of this program.
    ///
    /// # Errors
    /// A file of this program is wrong, which a test excludes.
    pub fn embedded() -> Result<Self, DefinitionError> {
        let mut catalogue = Self::default();
        for (name, text) in CONTROLLERS {
            catalogue.add_controller(name, &format!("study/controllers/{name}.toml"), text)?;
        }
        for (name, text) in EXPERIMENTS {
            catalogue.add_experiment(name, &format!("study/experiments/{name}.toml"), text)?;
        }
        Ok(catalogue)
    }

    /// Adds the files of `folder/controllers` and `folder/experiments`. They replace those of the same name.
    ///
    /// # Errors
    /// A folder that has neither, or a file that is wrong.
    pub fn add_folder(&mut self, folder: &Path) -> Result<(), DefinitionError> {
        let [controllers, experiments] = ["controllers", "experiments"].map(|it| folder.join(it));
        if !controllers.is_dir() && !experiments.is_dir() {
            return Err(DefinitionError {
                file: folder.display().to_string(),
                why: "it has neither a folder controllers nor a folder experiments".to_owned(),
            });
        }
        for (name, file, text) in files(&controllers)? {
            self.add_controller(&name, &file, &text)?;
        }
        for (name, file, text) in files(&experiments)? {
            self.add_experiment(&name, &file, &text)?;
        }
        Ok(())
    }

    fn add_controller(
        &mut self,
        name: &str,
        file: &str,
        text: &str,
    ) -> Result<(), DefinitionError> {
        let row = parse(file, text)?;
        check_controller(&row).map_err(|why| DefinitionError { file: file.to_owned(), why })?;
        self.controllers.insert(name.to_owned(), row);
        Ok(())
    }

    fn add_experiment(
        &mut self,
        name: &str,
        file: &str,
        text: &str,
    ) -> Result<(), DefinitionError> {
        let mut experiment: Experiment = parse(file, text)?;
        check_experiment(&experiment)
            .map_err(|why| DefinitionError { file: file.to_owned(), why })?;
        for figure in experiment.figures.iter_mut().filter(|figure| figure.unit.is_empty()) {
            let unit = metrics::unit(&experiment.measure, &figure.metric);
            figure.unit = unit.unwrap_or_default().to_owned();
        }
        self.experiments.insert(name.to_owned(), experiment);
        Ok(())
    }
}

fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, DefinitionError> {
    toml::from_str(text).map_err(|error| {
        // The error of the parser ends with a line break, and quotes the line.
        DefinitionError { file: file.to_owned(), why: error.to_string().trim_end().to_owned() }
    })
}

/// The text of a file with definitions, or of a plan.
///
/// # Errors
/// It is not a regular file, too long, or not UTF-8.
pub fn read_definition(path: &Path) -> Result<String, DefinitionError> {
    let error = |why: String| DefinitionError { file: path.display().to_string(), why };
    let metadata = path.metadata().map_err(|it| error(it.to_string()))?;
    if !metadata.is_file() {
        return Err(error("not a regular file".to_owned()));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(error(format!("{} bytes (at most {FILE_BYTES_MAX})", metadata.len())));
    }
    fs::read_to_string(path).map_err(|it| error(it.to_string()))
}

/// The files of a folder by name, with path and text; none if it does not exist.
fn files(folder: &Path) -> Result<Vec<(String, String, String)>, DefinitionError> {
    let error = |path: &Path, error: &dyn fmt::Display| DefinitionError {
        file: path.display().to_string(),
        why: error.to_string(),
    };
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| error(folder, &e))?.flatten() {
        let path = entry.path();
        let (Some(name), Some("toml")) = (
            path.file_stem().and_then(|it| it.to_str()),
            path.extension().and_then(|it| it.to_str()),
        ) else {
            continue;
        };
        let text = read_definition(&path)?;
        files.push((name.to_owned(), path.display().to_string(), text));
    }
    sort_by(&mut files, Ord::cmp);
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_this_program_are_right_and_all_are_listed() {
        let catalogue = Catalogue::embedded().unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../study");
        let mut from_folder = Catalogue::default();
        from_folder.add_folder(&folder).unwrap();
        let names = |catalogue: &Catalogue| {
            let controllers = catalogue.controllers.keys().cloned();
            controllers.chain(catalogue.experiments.keys().cloned()).collect::<Vec<_>>()
        };
        assert_eq!(
            names(&catalogue),
            names(&from_folder),
            "crates/study/src/definition/embedded.rs"
        );
        for (name, experiment) in &catalogue.experiments {
            for id in &experiment.controllers {
                assert!(catalogue.controllers.contains_key(id), "{name}: {id}");
            }
        }
    }

    #[test]
    fn an_unknown_key_is_named_with_its_file_and_line() {
        let mut catalogue = Catalogue::default();
        let text = "title = \"x\"\nspeed = 3\n";
        let error = catalogue.add_controller("x", "x.toml", text).unwrap_err().to_string();
        assert!(error.starts_with("x.toml: TOML parse error at line 2, column 1"), "{error}");
        assert!(error.contains("unknown field `speed`"), "{error}");
    }

    #[test]
    fn a_folder_without_definitions_is_an_error() {
        let error = Catalogue::default().add_folder(Path::new("/etc")).unwrap_err();
        assert!(error.to_string().starts_with("/etc: it has neither"), "{error}");
    }
}
