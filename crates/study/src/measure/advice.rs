//! Warnings of the bench with the advice that somebody who runs a study can follow.

/// What the bench advises, and what is possible in a study: its generator has one thread on a core of its own, and experiments set the load.
const ADVICE: [(&str, &str); 15] = [
    (
        "; use more --threads, on CPU cores of their own (--pin)",
        "; the load generator of a study has one thread, so that the value is a lower bound",
    ),
    (
        ": give it a CPU core of its own (--pin), use --spin, or lower --rate",
        ": stop other programs, or lower the rate in the experiment",
    ),
    (
        "the generator was too slow, not the controller; use more --threads, or lower --rate",
        "the generator was too slow, not the controller; lower the rate in the experiment",
    ),
    (
        "measure with --spin 1000, so that the generator does not sleep",
        "more requests in flight (window in the experiment) keep both awake",
    ),
    (
        "let the controller poll, too (`sluice run --spin`), or use a larger window",
        "more requests in flight (window in the experiment) keep both awake",
    ),
    (
        ": give both ends cores of their own (--pin), and stop other programs",
        ": stop other programs, or give the controller fewer threads than the machine has cores",
    ),
    (
        "; --count messages counts them without matching",
        "; the experiment cbench counts messages without matching them",
    ),
    (" (--delay 1000 waits for that)", " (delay_s = 1 in the experiment waits for that)"),
    (" (--mac-addresses 1000)", " (hosts = 1000 in the experiment)"),
    (
        ", so that the percentiles hardly show it; --rate does",
        ", so that the percentiles hardly show it; a load with a rate in the experiment does",
    ),
    (
        "a switch sends nothing more until --timeout",
        "a switch sends nothing more until the time-out of the request",
    ),
    ("were answered after --timeout", "were answered after the time-out of a request"),
    (" (--delay)", " (delay_s in the experiment)"),
    ("for --topo", "for topology"),
    ("; give another one with --pin", ""),
];

/// `sentence` of the bench without options that a study does not have.
pub(super) fn for_study(sentence: &str) -> String {
    ADVICE.iter().fold(sentence.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_can_be_followed_in_a_study() {
        let busy = "1 of 1 generator thread was busy more than 95 % of the time: the controller may be faster than measured; use \
                    more --threads, on CPU cores of their own (--pin)";
        assert_eq!(
            for_study(busy),
            "1 of 1 generator thread was busy more than 95 % of the time: the controller may be faster than measured; the load \
             generator of a study has one thread, so that the value is a lower bound"
        );
        assert_eq!(for_study("no hosts"), "no hosts");
    }

    #[test]
    fn no_warning_of_the_bench_names_an_option() {
        // The text of the sources, as the compiler joins the lines of a string.
        let sources = [
            include_str!("../../../bench/src/warnings.rs"),
            include_str!("../../../bench/src/cpu_warnings.rs"),
            include_str!("../../../bench/src/paths/report.rs"),
        ];
        for source in sources {
            let code = source.split("#[cfg(test)]").next().unwrap();
            let mut joined = String::new();
            for line in code.lines() {
                match line.trim_end().strip_suffix('\\') {
                    Some(part) => joined += part.trim_start_matches(' '),
                    None => joined = joined + line.trim_start() + "\n",
                }
            }
            let text = for_study(&joined);
            let named =
                |line: &&str| line.contains(" --") || line.contains("(--") || line.contains("\"--");
            let left: Vec<_> = text.lines().filter(named).collect();
            assert!(left.is_empty(), "measure/advice.rs has no text for: {left:#?}");
        }
    }
}
