//! Sections of applications of other crates.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sluice_sdk::allocation::Allocation;
use sluice_sdk::flow_space::EntryKind;
use sluice_sdk::{App, AppConfig, Application};

use super::*;
use crate::Registry;

const ENTRIES: EntryKind = EntryKind::with_prefix("port-guard", *b"guar", 1000..=1000);

struct PortGuard;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct GuardConfig {
    rate: u32,
    strict: bool,
    names: Vec<String>,
    rules: Vec<Rule>,
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self { rate: 5, strict: true, names: vec![], rules: vec![] }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Rule {
    port: u16,
}

impl App for PortGuard {}

impl Application for PortGuard {
    const NAME: &'static str = "port-guard";
    const DESCRIPTION: &'static str = "guards ports";
    const ALLOCATION: Allocation = Allocation::of_entries(&[ENTRIES]);
    type Config = GuardConfig;

    fn new(_: &GuardConfig) -> Self {
        Self
    }

    fn configure(&mut self, _: &GuardConfig) {}
}

struct Sources {
    path: PathBuf,
    sources: ConfigSources,
}

impl Sources {
    fn new(name: &str, text: &str, env: &[(&str, &str)]) -> Self {
        let file = format!("sluice-section-{}-{name}.toml", std::process::id());
        let path = std::env::temp_dir().join(file);
        fs::write(&path, text).unwrap();
        let flags = Flags { config: Some(path.clone()), ..Flags::default() };
        let env = env.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        let registry = Registry::default().with::<PortGuard>();
        assert!(registry.errors().is_empty());
        Self { path, sources: ConfigSources { flags, env, registry } }
    }

    fn load(&self) -> Result<LoadedConfig, Vec<ConfigError>> {
        self.sources.load()
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn config(loaded: &LoadedConfig) -> GuardConfig {
    loaded.sections[0].config.get::<GuardConfig>().unwrap().clone()
}

/// The errors, with `F` for the path of the file.
fn errors(name: &str, text: &str, env: &[(&str, &str)]) -> Vec<String> {
    let sources = Sources::new(name, text, env);
    let path = sources.path.display().to_string();
    let errors = sources.load().unwrap_err();
    errors.iter().map(|error| error.to_string().replace(&path, "F")).collect()
}

#[test]
fn a_section_is_read_from_file_and_environment() {
    let text =
        "apps = [\"port-guard\", \"hub\"]\n[app.port-guard]\nrate = 7\nrules = [{ port = 9 }]\n";
    let env =
        [("SLUICE_APP__PORT_GUARD__STRICT", "off"), ("SLUICE_APP__PORT_GUARD__NAMES", "a, b")];
    let loaded = Sources::new("read", text, &env).load().unwrap();
    let names = vec!["a".to_owned(), "b".to_owned()];
    let expected = GuardConfig { rate: 7, strict: false, names, rules: vec![Rule { port: 9 }] };
    assert_eq!(config(&loaded), expected);
    assert_eq!(loaded.config.app_names, ["port-guard", "hub"]);
    let overridden = [("SLUICE_APP__PORT_GUARD__RATE", "8")];
    assert_eq!(config(&Sources::new("env", text, &overridden).load().unwrap()).rate, 8);
    assert_eq!(config(&Sources::new("none", "", &[]).load().unwrap()), GuardConfig::default());
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, error) in [
        (
            "[app.port-guard]\nrate = -1\n",
            "F:2:1: `app.port-guard.rate`: invalid value -1 (expected a whole number from 0 to 4294967295)",
        ),
        (
            "[app.port-guard]\n  rat = 1\n",
            "F:2:3: unknown key `app.port-guard.rat` (known: names, rate, rules, strict)",
        ),
        (
            "app.port-guard.rules = [{ port = 1 }, { port = \"x\" }]\n",
            "F:1:41: `app.port-guard.rules[1].port`: invalid value \"x\" (expected a whole number from 0 to 65535)",
        ),
        (
            "[app.port-guard]\nrules = [{ port = 1, x = 2 }]\n",
            "F:2:22: unknown key `app.port-guard.rules[0].x`",
        ),
        (
            "[app.port-guard]\nrules = [{}]\n",
            "F:2:10: `app.port-guard.rules[0].port`: no value (expected one, since it has no default)",
        ),
        (
            "app.port-guard = 1\n",
            "F:1:5: `app.port-guard` is a section: write [app.port-guard] and its keys below",
        ),
        ("[app.guard]\n", "F:1:6: unknown application \"guard\" in `app` (known: port-guard)"),
        (
            "[app.forwarding]\n",
            "F:1:6: unknown section `app.forwarding`; did you mean `forwarding`?",
        ),
        (
            "apps = [\"portguard\"]\n",
            "F:1:1: `apps`: unknown application \"portguard\" (known: topology, learning, hub, limiter, hosts, forwarding, port-guard)",
        ),
    ] {
        assert_eq!(errors("wrong", text, &[]), [error], "{text}");
    }
    let env = [("SLUICE_APP__PORT_GUARD__RATE", "fast")];
    assert_eq!(
        errors("wrong-env", "", &env),
        [
            "env SLUICE_APP__PORT_GUARD__RATE: `app.port-guard.rate`: invalid value \"fast\" (expected a whole number from 0 to 4294967295)"
        ]
    );
    let env = [("SLUICE_APP__OTHER__RATE", "1")];
    assert_eq!(
        errors("wrong-app", "", &env),
        ["env SLUICE_APP__OTHER__RATE: unknown application \"other\" in `app` (known: port-guard)"]
    );
}

#[test]
fn a_program_without_other_applications_has_no_such_section() {
    let mut sources = Sources::new("without", "[app.port-guard]\n", &[]);
    sources.sources.registry = Registry::default();
    let error = sources.load().unwrap_err()[0].to_string();
    assert!(
        error.ends_with(
            "unknown section `app.port-guard`: this program has no applications of other crates"
        ),
        "{error}"
    );
}

#[test]
fn configured_priorities_are_not_those_of_an_application_in_the_chain() {
    let text = |apps: &str| format!("apps = [{apps}]\nforwarding.priority = 998\n");
    let chain = r#""port-guard", "topology", "hosts", "forwarding""#;
    assert_eq!(
        errors("priority", &text(chain), &[]),
        [
            "F:2:12: `forwarding.priority`: application \"forwarding\": priority 1000: allocated to \"port-guard\""
        ]
    );
    let others = r#""topology", "hosts", "forwarding""#;
    assert!(Sources::new("apart", &text(others), &[]).load().is_ok());
}

#[test]
fn a_changed_section_is_noticed_and_shown() {
    let old = Sources::new("old", "", &[]).load().unwrap();
    let new = Sources::new("new", "[app.port-guard]\nrate = 6\n", &[]).load().unwrap();
    assert_eq!(old.changed_sections(&new), ["app.port-guard"]);
    assert_eq!(new.changed_sections(&new), Vec::<String>::new());
    let text = show(&new);
    let rate = text.lines().find(|line| line.starts_with("rate = 6")).unwrap();
    assert!(rate.ends_with(":2:1"), "{rate}");
    assert!(text.contains("[app.port-guard]\n") && text.contains("strict = true"), "{text}");
    let example = example_of_apps(&Registry::default().with::<PortGuard>());
    assert!(
        example.contains("[app.port-guard]\n# The application port-guard: guards ports.\n"),
        "{example}"
    );
    assert!(example.contains("rate = 5\n"), "{example}");
    assert!(AppConfig::new(GuardConfig::default()) == old.sections[0].config);
}
