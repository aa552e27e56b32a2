//! The report of a study whose samples are known.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail anywhere")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use sluice_study::definition::Catalogue;
use sluice_study::record::{Sample, StudyRecord};
use sluice_study::report;
use support::{ALL_KINDS, Sampler, controller, process, study};

/// Writes the report of a study into a folder of its own.
fn written(name: &str, record: &StudyRecord, samples: &[Sample]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    report::write(record, samples, &folder).unwrap();
    folder
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

/// Three controllers, one of which was not found, and what goes wrong in studies.
fn faulty() -> (StudyRecord, Vec<Sample>) {
    let mut controllers = vec![
        controller("first", "First <&> \"one\" 50 % $_"),
        controller("single", "Single thread"),
        controller("third", "Third"),
        controller("absent", "Absent"),
    ];
    controllers[3].missing = Some("the file <absent> is missing".to_owned());
    let record = study(controllers, &[("all-kinds", ALL_KINDS)]);
    let mut samples = Sampler::new(1).samples(&record);
    let threads = |sample: &Sample| sample.cell.values().next().unwrap().as_number().unwrap();
    for sample in samples.iter_mut().filter(|it| it.controller == "third") {
        if threads(sample) >= 8.0 {
            sample.failure = Some("the controller <crashed> & left".to_owned());
            sample.figures.clear();
            sample.distribution.clear();
        }
        if threads(sample) < 2.0 && sample.round == 2 {
            sample.failure = Some("time-out".to_owned());
        }
        sample
            .warnings
            .push(format!("the generator was busy {} %, it was the limit", 90 + sample.round));
        sample.lower_bounds = vec!["p50_us".to_owned()];
    }
    // A sample that was disturbed and repeated, and one that remained disturbed.
    let mut disturbed = samples[0].clone();
    samples[0].attempt = 1;
    disturbed.machine.is_disturbed = true;
    disturbed.figures.insert("rate".to_owned(), 1.0);
    samples.push(disturbed);
    samples[1].machine.is_disturbed = true;
    (record, samples)
}

/// The rows of CSV (RFC 4180).
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut is_quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match (c, is_quoted) {
            ('"', true) if characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            ('"', _) => is_quoted = !is_quoted,
            (',', false) => row.push(std::mem::take(&mut field)),
            ('\r', false) => {}
            ('\n', false) => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            (c, _) => field.push(c),
        }
    }
    assert!(field.is_empty() && row.is_empty() && !is_quoted, "the last line ends");
    rows
}

/// Asserts that each element is closed, in the right order, and that ids are unique.
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let content = page.split_once("</style>").unwrap().1;
    for tag in content.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
        let name = tag.split([' ', '/', '\n']).find(|part| !part.is_empty()).unwrap();
        if name == "br" || tag.ends_with('/') {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else {
            open.push(name);
        }
    }
    assert_eq!(open, ["html", "head"].map(|_| "").into_iter().take(0).collect::<Vec<_>>());
    let mut ids: Vec<_> = page.split(" id=\"").skip(1).map(|it| it.split('"').next()).collect();
    let n = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), n, "ids are unique");
    for target in page.split("href=\"#").skip(1).map(|it| it.split('"').next()) {
        assert!(ids.contains(&target), "{target:?} is the target of a link");
    }
}

#[test]
fn the_page_has_all_kinds_of_figures_and_needs_nothing_else() {
    let (record, samples) = faulty();
    let page = read(&written("faulty", &record, &samples), "report.html");
    let page = page.replace("</head>", "");
    assert_well_formed(&page.replacen("<body>", "", 1).replace("</body>\n</html>\n", ""));
    for forbidden in ["<script", "url(", "src=", "@import", "<link", "<img"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert_eq!(page.matches("http").count(), page.matches("https://example.org/").count());
    assert!(page.contains("<html lang=\"en\">"));
    // Lines, bars and memory for wide and for narrow screens, and the distribution for each number of threads.
    let pictures = page.matches("role=\"img\"").count();
    assert_eq!(pictures, 2 * 3 + 5, "pictures");
    assert_eq!(page.matches("class=\"narrow\"").count(), 3);
    assert_eq!(page.matches("class=\"wide\"").count(), 3);
    assert_eq!(page.matches("<desc").count(), pictures);
    assert!(
        page.matches("class=\"marker").count() >= 9
            && page.matches("class=\"interval").count() >= 7
    );
    assert!(page.matches("class=\"bar c").count() >= 9);
    for title in ["Throughput as a table", "Trials as in RFC 8456", "Variance", "Average"] {
        assert!(page.contains(title), "{title}");
    }
    assert!(page.contains(
        "sluice study run --experiments all-kinds --controllers first,single,third --rounds 5</code>"
    ));
}

#[test]
fn titles_from_files_are_text_in_each_format() {
    let (record, samples) = faulty();
    let folder = written("escaped", &record, &samples);
    let page = read(&folder, "report.html");
    assert!(page.contains("Threads &lt;1&gt; &amp; &quot;more&quot; _50 %_ $x$"));
    assert!(page.contains("First &lt;&amp;&gt; &quot;one&quot; 50 % $_"));
    for raw in ["Threads <1>", "<threads>", "<&>", "<absent>", "<crashed>", "<all>"] {
        assert!(!page.contains(raw), "{raw}");
    }
    let lines = read(&folder, "latex/all-kinds-lines.tex");
    assert!(
        lines.contains(r"\addlegendentry{First \textless{}\&\textgreater{} ''one'' 50 \% \$\_}"),
        "{lines}"
    );
    assert!(lines.contains("error bars/.cd") && lines.contains("\\begin{tikzpicture}"));
    let table = read(&folder, "latex/all-kinds-table.tex");
    // The reason is below the table, once for both cells.
    let reason =
        r"\textsuperscript{a}~failed: the controller \textless{}crashed\textgreater{} \& left";
    assert!(table.contains("\\toprule") && table.matches(reason).count() == 1, "{table}");
    assert_eq!(table.matches(r"--\textsuperscript{a}").count(), 2, "{table}");
    for name in ["lines", "bars", "cdf", "memory", "table", "trials"] {
        let text = read(&folder, &format!("latex/all-kinds-{name}.tex"));
        assert_eq!(text.matches("\\begin{").count(), text.matches("\\end{").count(), "{name}");
    }
}

#[test]
fn what_failed_is_visible_in_figures_tables_and_warnings() {
    let (record, samples) = faulty();
    let page = read(&written("failures", &record, &samples), "report.html");
    let reason = "failed: the controller &lt;crashed&gt; &amp; left";
    // In the warnings, below three pictures, in the bars, in the table, in the data of cells and of samples.
    assert!(page.matches(reason).count() > 20, "{}", page.matches(reason).count());
    assert!(page.contains("1 of 5 samples failed: time-out"));
    assert!(page.contains("not found: the file &lt;absent&gt; is missing"));
    assert!(page.contains("1 repeated, 1 kept although they were disturbed, and marked †"));
    assert!(
        page.contains(
            "it was the limit (and 4 with other numbers): <strong>24 samples</strong> of Third (24)"
        ) || page.contains(
            "it was the limit (and 4 with other numbers): <strong>25 samples</strong> of Third (25)"
        )
    );
    assert!(page.contains("≥\u{202f}"), "lower bounds are marked");
    assert!(
        page.contains("1.45\u{202f}M/s ± 1.00\u{202f}k/s"),
        "published values have their deviation"
    );
    assert!(page.contains("First &lt;&amp;&gt; &quot;one&quot; 50 % $_, measured here"));
    assert_eq!(page.matches("NOX, published").count(), 1, "a row for each published controller");
    assert_eq!(page.matches("Source: A. Author").count(), 1);
    assert!(page.contains("<th scope=\"col\" class=\"number\">threads 8</th>"));
}

#[test]
fn csv_has_a_row_for_each_sample_and_for_each_metric_of_each_cell() {
    let (record, mut samples) = faulty();
    samples[3].warnings.push("a \"quoted\", warning\nwith two lines".to_owned());
    let folder = written("csv", &record, &samples);
    let rows = parse_csv(&read(&folder, "samples.csv"));
    assert_eq!(rows.len(), samples.len() + 1);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let column = |name: &str| rows[0].iter().position(|it| it == name).unwrap();
    for (row, sample) in rows[1..].iter().zip(&samples) {
        let rate = row[column("rate")].parse().ok();
        assert_eq!(rate, sample.figures.get("rate").copied());
        assert_eq!(row[column("warnings")], sample.warnings.join("; "));
    }
    let summary = parse_csv(&read(&folder, "summary.csv"));
    let column = |name: &str| summary[0].iter().position(|it| it == name).unwrap();
    assert!(summary.iter().all(|row| row.len() == summary[0].len()));
    let number = |row: &[String], name: &str| row[column(name)].parse::<f64>().unwrap();
    let rate = summary.iter().find(|row| row[column("metric")] == "rate").unwrap();
    assert_eq!((number(rate, "n"), rate[column("unit")].as_str()), (5.0, "1/s"));
    assert!(number(rate, "min") > 1.0, "the disturbed sample does not count");
    assert!(number(rate, "interval_low") < number(rate, "mean"));
    assert!(number(rate, "mean") < number(rate, "interval_high"));
    let failed = summary.iter().filter(|row| row[column("failure")].contains("crashed"));
    assert_eq!(failed.count(), 2, "cells without values have a row");
}

#[test]
fn the_summary_is_there_as_data() {
    let (record, samples) = faulty();
    let folder = written("json", &record, &samples);
    let document: serde_json::Value = serde_json::from_str(&read(&folder, "report.json")).unwrap();
    assert_eq!(document["schema"], report::SCHEMA);
    assert_eq!(document["controllers"].as_array().unwrap().len(), 4);
    let cell = &document["experiments"][0]["cells"][0];
    assert_eq!((&cell["repeated"], &cell["metrics"]["rate"]["n"]), (&1.into(), &5.into()));
    assert_eq!(
        document["problems"].as_array().unwrap().len(),
        report::check(&record, &samples).len()
    );
}

#[test]
fn the_check_names_what_is_missing_and_unknown() {
    let controllers = vec![controller("first", "First"), controller("single", "Single")];
    let record = study(controllers, &[("all-kinds", ALL_KINDS)]);
    let samples = Sampler::new(2).samples(&record);
    assert_eq!(report::check(&record, &samples), [""; 0]);

    let (mut faulty, samples) = faulty();
    let experiment = &mut faulty.experiments[0].experiment;
    experiment.published[0].figure = "fig-9".to_owned();
    experiment.figures[0].metric = "speed".to_owned();
    let problems = report::check(&faulty, &samples);
    let expected = [
        "all-kinds: figure `lines` has no values of the metric `speed`",
        "all-kinds: published values of the unknown figure `fig-9` (known: lines, bars, cdf, memory, table, trials)",
        "all-kinds: third, threads 1: 4 of 5 samples; failed: time-out",
        "all-kinds: third, threads 8: 0 of 5 samples; failed: the controller <crashed> & left",
        "all-kinds: third, threads 16: 0 of 5 samples; failed: the controller <crashed> & left",
    ];
    assert_eq!(problems, expected);
    let missing = report::check(&faulty, &samples[..20]);
    assert!(missing.iter().any(|it| it.ends_with("of 5 samples")), "{missing:?}");
}

#[test]
fn a_study_without_samples_has_a_report() {
    let record = study(vec![controller("first", "First")], &[("all-kinds", ALL_KINDS)]);
    let page = read(&written("empty", &record, &[]), "report.html");
    assert_eq!(page.matches("<p class=\"failed\">No values.</p>").count(), 6);
    assert!(page.contains("not measured"));
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn each_experiment_of_the_catalogue_has_a_report() {
    let catalogue = Catalogue::embedded().unwrap();
    // As few as are enough for all experiments, since the intervals take long.
    let names = ["sluice", "sluice-learning", "null", "ryu"];
    let mut controllers = names.map(|id| sluice_study::record::ControllerRecord {
        row: catalogue.controllers[id].clone(),
        ..controller(id, "")
    });
    controllers[3].missing = Some("the program is not in PATH".to_owned());
    let mut record = study(controllers.to_vec(), &[]);
    record.experiments = catalogue
        .experiments
        .iter()
        .map(|(id, experiment)| sluice_study::record::ExperimentRecord {
            id: id.clone(),
            experiment: experiment.clone().shortened(),
        })
        .collect();
    let samples = Sampler::new(3).samples(&record);
    let page = read(&written("catalogue", &record, &samples), "report.html");
    for experiment in &record.experiments {
        assert!(
            page.contains(&format!("id=\"experiment-{}\"", experiment.id)),
            "{}",
            experiment.id
        );
    }
    assert!(!page.contains("NaN"));
    assert_eq!(report::check(&record, &samples), [""; 0]);
}

#[test]
fn failures_that_differ_in_a_number_are_one_line() {
    let (record, mut samples) = faulty();
    let mut port = 40_000;
    for sample in samples.iter_mut().filter(|it| it.controller == "single") {
        port += 1;
        sample.failure =
            Some(format!("port {port}, which it needs, is in use by process {}", port * 3));
        sample.figures.clear();
    }
    let folder = written("grouped", &record, &samples);
    let page = read(&folder, "report.html");
    let warnings = page.split("<h2>Machine</h2>").nth(1).unwrap().split("<nav").next().unwrap();
    let example =
        "port 40001, which it needs, is in use by process 120003 (and 4 with other numbers)";
    assert_eq!(warnings.matches("which it needs").count(), 1, "{warnings}");
    assert!(warnings.contains(&format!("failed: {example}: 5 samples")), "{warnings}");
    let figure = page.split("id=\"figure-all-kinds-lines\"").nth(1).unwrap();
    let figure = figure.split("</figure>").next().unwrap();
    assert!(figure.contains(&format!("Single thread: failed: {example} (threads 1)")), "{figure}");
    let problems = report::check(&record, &samples);
    assert!(problems.iter().any(|it| it.contains(example)), "{problems:?}");
    let table = read(&folder, "latex/all-kinds-table.tex");
    let (_, code) = table.split_once("\\begin").unwrap();
    assert_eq!(code.matches("which it needs").count(), 1, "{table}");
}

#[test]
fn restarts_and_the_resolution_of_the_start_up_time_are_shown() {
    let (mut record, mut samples) = faulty();
    record.machine.congestion = Some("bbr".to_owned());
    samples[0].restarts = 1;
    samples[0]
        .warnings
        .push("the controller was started again: it ended before it was ready".to_owned());
    let folder = written("restarts", &record, &samples);
    let page = read(&folder, "report.html");
    assert!(page.contains("1: it ended before it was ready, and was started again"));
    assert!(page.contains("the controller was started again: it ended before it was ready"));
    assert!(page.contains("or up to 50.0\u{202f}ms less"));
    assert!(page.contains("the TCP congestion control of this machine is bbr"));
    let rows = parse_csv(&read(&folder, "samples.csv"));
    let column = |name: &str| rows[0].iter().position(|it| it == name).unwrap();
    assert_eq!(rows[1][column("restarts")], "1");
    assert_eq!(rows[1][column("start_up_resolution_s")], "0.05");
    let document: serde_json::Value = serde_json::from_str(&read(&folder, "report.json")).unwrap();
    assert_eq!(document["controllers"][0]["restarts"], 1);
    assert!(document["warnings"][0].as_str().unwrap().contains("bbr"));
}

#[test]
fn each_process_of_a_controller_is_shown() {
    let controllers = vec![controller("single", "Single"), controller("several", "Several")];
    let record = study(controllers, &[("all-kinds", ALL_KINDS)]);
    let mut samples = Sampler::new(1).samples(&record);
    let of_several = samples.iter_mut().filter(|sample| sample.controller == "several");
    let n = of_several.enumerate().map(|(at, sample)| {
        let usage = sample.usage.as_mut().unwrap();
        usage.processes = vec![
            process("core", 1.0, false),
            process("<l2>, learning", 3.0, at == 4),
            process("core", 1.0, false),
        ];
    });
    let n = n.count();
    let folder = written("processes", &record, &samples);
    let page = read(&folder, "report.html");
    let table = page.split_once("<h3>Processes</h3>").unwrap().1.split_once("</table>").unwrap().0;
    let rows: Vec<_> = table.split("<tr>").skip(2).collect();
    let [l2, core] = rows[..] else { panic!("{table}") };
    let ended = format!("in 1 of {n} samples");
    for text in ["Several", "&lt;l2&gt;, learning", ">1<", "60.0", "20.0", &ended] {
        assert!(l2.contains(text), "{text} in {l2}");
    }
    for text in ["core", ">2<", "40.0", "<td>no</td>"] {
        assert!(core.contains(text), "{text} in {core}");
    }
    let rows = parse_csv(&read(&folder, "processes.csv"));
    assert_eq!(rows.len(), 1 + samples.len() + 2 * n);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let report: serde_json::Value = serde_json::from_str(&read(&folder, "report.json")).unwrap();
    let processes = &report["controllers"][1]["processes"];
    assert_eq!(processes[0]["name"], "<l2>, learning");
    assert_eq!(processes[0]["samples_ended_early"], 1);
    assert_eq!((&processes[1]["most"], &processes[1]["samples"]), (&2.into(), &n.into()));
}

/// The ranges that the axes of a picture have.
fn ranges(picture: &str) -> Vec<&str> {
    let parts = picture.split(['\n', ',']).map(str::trim);
    parts.filter(|it| it.starts_with("ymin=") || it.starts_with("ymax=")).collect()
}

#[test]
fn pictures_of_latex_have_ranges_and_differ_without_colors() {
    let (record, mut samples) = faulty();
    for sample in samples.iter_mut().filter(|it| it.controller == "single") {
        sample.figures.insert("rate".to_owned(), 0.0);
    }
    let folder = written("latex", &record, &samples);
    let lines = read(&folder, "latex/all-kinds-lines.tex");
    // 0 is not on the logarithmic axis, and no line is drawn for it.
    assert!(
        lines.contains("% At 1, the value is 0, which a logarithmic axis does not have."),
        "{lines}"
    );
    assert_eq!(ranges(&lines), ["ymin=100000", "ymax=10000000"], "{lines}");
    let mut rows = lines.lines().map(|it| it.split(' ').collect::<Vec<_>>());
    assert!(rows.all(|row| !(4..=5).contains(&row.len()) || row[1] != "0"), "{lines}");
    // Each line has a pattern and a mark of its own.
    let plots: Vec<_> = lines.lines().filter(|it| it.starts_with("\\addlegendimage")).collect();
    let styles: std::collections::BTreeSet<_> = plots
        .iter()
        .map(|it| it.split(',').skip(1).step_by(2).take(2).collect::<Vec<_>>())
        .collect();
    assert_eq!((plots.len(), styles.len()), (3, 3), "{plots:?}");
    let memory = read(&folder, "latex/all-kinds-memory.tex");
    assert!(memory.contains("ymin=0,ymax=") && memory.contains("mark repeat="), "{memory}");
    let distribution = read(&folder, "latex/all-kinds-cdf.tex");
    assert!(distribution.contains("xmode=log,xmin=10,xmax="), "{distribution}");
    for name in ["lines", "bars", "cdf", "memory", "table", "trials", ""] {
        let name = if name.is_empty() { "all".to_owned() } else { format!("all-kinds-{name}") };
        let text = read(&folder, &format!("latex/{name}.tex"));
        let code: String = text.lines().filter(|it| !it.starts_with('%')).collect();
        assert!(code.is_ascii(), "{name}: {:?}", code.chars().find(|c| !c.is_ascii()));
        let plain = code.replace("\\{", "").replace("\\}", "");
        assert_eq!(plain.matches('{').count(), plain.matches('}').count(), "{name}");
    }
}

/// The plots of a picture, each with its options and its table.
fn plots(picture: &str) -> Vec<&str> {
    picture.split("\\addplot").skip(1).map(|it| it.split("};").next().unwrap()).collect()
}

/// A figure of the page.
fn figure<'p>(page: &'p str, name: &str) -> &'p str {
    let figure = page.split(&format!("<figure id=\"figure-{name}\">")).nth(1).unwrap();
    figure.split("</figure>").next().unwrap()
}

#[test]
fn lower_bounds_are_marked_in_pictures_of_latex() {
    let (record, mut samples) = faulty();
    samples[0].lower_bounds = vec!["rate".to_owned()];
    let folder = written("bounds", &record, &samples);
    for name in ["lines", "bars"] {
        let picture = read(&folder, &format!("latex/all-kinds-{name}.tex"));
        let marked = plots(&picture).into_iter().filter(|it| it.contains("nodes near coords"));
        let [plot] = marked.collect::<Vec<_>>()[..] else { panic!("{picture}") };
        assert!(plot.contains("\\ensuremath{\\ge}") && plot.contains("meta=bound"), "{plot}");
        let (_, table) = plot.split_once("x y plus minus bound\n").unwrap();
        let bounds: Vec<_> = table.lines().map(|row| row.split(' ').nth(4).unwrap()).collect();
        // One cell of the first controller, and each of the third.
        let expected = if name == "lines" { &["1", "0", "0", "0", "0"][..] } else { &["1"; 3][..] };
        assert_eq!(bounds, expected, "{plot}");
    }
    assert!(read(&folder, "latex/README.txt").contains("≥ at a point, at the end of a bar"));
}

#[test]
fn upper_bounds_are_marked_in_the_page_in_pictures_and_in_data() {
    let (record, mut samples) = faulty();
    samples[0].lower_bounds.clear();
    samples[0].upper_bounds = vec!["rate".to_owned()];
    let folder = written("upper-bounds", &record, &samples);
    let page = read(&folder, "report.html");
    assert!(page.contains(" ≤: an upper bound, since the load generator was the limit."));
    assert!(page.contains("≤\u{202f}") && page.contains(">≤</text>"));
    let picture = read(&folder, "latex/all-kinds-lines.tex");
    assert!(picture.contains("\\or\\ensuremath{\\le}"), "{picture}");
    let (_, table) = picture.split_once("x y plus minus bound\n").unwrap();
    assert_eq!(table.lines().next().unwrap().split(' ').nth(4), Some("2"), "{picture}");
    let columns = |file: &str, name: &str| {
        let text = read(&folder, file);
        let place = text.lines().next().unwrap().split(',').position(|it| it == name).unwrap();
        let value = |line: &str| line.split(',').nth(place).unwrap().to_owned();
        text.lines().skip(1).map(value).collect::<Vec<_>>()
    };
    assert!(columns("samples.csv", "upper_bounds").contains(&"rate".to_owned()));
    assert!(columns("summary.csv", "upper_bound").contains(&"true".to_owned()));
    assert!(read(&folder, "report.json").contains("\"upper_bound\": true"));
}

#[test]
fn a_distribution_ends_where_most_samples_have_no_answer() {
    let mut record = study(vec![controller("first", "First")], &[("all-kinds", ALL_KINDS)]);
    record.experiments[0].experiment.rounds = 3;
    let samples = Sampler::new(6).samples(&record);
    // Each of these rounds is cut at a share of the requests.
    let reported = |cut: u32, share: f64| {
        let mut samples = samples.clone();
        for sample in samples.iter_mut().filter(|it| it.round < cut) {
            sample.distribution.retain(|(it, _)| *it <= share);
        }
        written("answers", &record, &samples)
    };
    let last = |folder: &Path| -> Vec<String> {
        let picture = read(folder, "latex/all-kinds-cdf.tex");
        let share = |plot: &&str| plot.trim_end().rsplit(' ').next().unwrap().to_owned();
        plots(&picture).iter().map(share).collect()
    };
    let folder = reported(2, 0.6);
    assert_eq!(last(&folder), ["0.6"; 5]);
    let page = read(&folder, "report.html");
    let cdf = figure(&page, "all-kinds-cdf");
    assert!(cdf.contains("First, threads 16: median ") && !cdf.contains("median not reached"));
    assert!(cdf.contains(", 99th percentile not reached;"), "{cdf}");
    // The median is an answer up to the last request.
    let folder = reported(1, 0.6);
    assert_eq!(last(&folder), ["1"; 5]);
    assert!(!read(&folder, "report.html").contains("not reached"));
    // Two of three rounds have no distribution.
    let page = read(&reported(2, -1.0), "report.html");
    let cdf = figure(&page, "all-kinds-cdf");
    assert!(cdf.contains("No values.") && cdf.contains("since too few requests were answered"));
    assert_eq!(last(&reported(1, -1.0)), ["1"; 5]);
}

#[test]
fn values_of_disturbed_samples_are_marked_and_counted() {
    let (record, samples) = faulty();
    let folder = written("disturbed", &record, &samples);
    let sentence = |n: usize| {
        format!(
            "1 of {n} samples was disturbed by other programs or by the hypervisor: Single thread, threads 1 (1 of 5)."
        )
    };
    let page = read(&folder, "report.html");
    for (name, expected) in [
        ("lines", format!("<p class=\"note\">{}</p>", sentence(44))),
        ("bars", format!("<p class=\"note\">†: {}</p>", sentence(44))),
        ("table", format!("<p class=\"note\">†: {}</p>", sentence(44))),
        ("trials", format!("<p class=\"note\">†: {}</p>", sentence(14))),
    ] {
        let figure = figure(&page, &format!("all-kinds-{name}"));
        assert!(figure.contains(&expected), "{figure}");
    }
    // A mean, or a trial and the average, and what the mark means.
    assert_eq!(figure(&page, "all-kinds-table").matches('†').count(), 2);
    assert_eq!(figure(&page, "all-kinds-trials").matches('†').count(), 3);
    for (name, n, marks) in [("table", 44, 2), ("trials", 14, 3)] {
        let table = read(&folder, &format!("latex/all-kinds-{name}.tex"));
        assert_eq!(table.matches(r"\dag{}").count(), marks, "{table}");
        assert!(table.contains(&format!(r"\dag{{}}~{}", sentence(n))), "{table}");
    }
    assert!(read(&folder, "latex/all-kinds-lines.tex").contains(&format!("% {}", sentence(44))));
    let rows = parse_csv(&read(&folder, "summary.csv"));
    let column = |name: &str| rows[0].iter().position(|it| it == name).unwrap();
    for row in &rows[1..] {
        let n = if row[column("controller")] == "single" { "1" } else { "0" };
        assert_eq!(row[column("disturbed")], n, "{row:?}");
    }
    let report: serde_json::Value = serde_json::from_str(&read(&folder, "report.json")).unwrap();
    let cells = report["experiments"][0]["cells"].as_array().unwrap();
    for cell in cells.iter().filter(|cell| !cell["metrics"]["rate"].is_null()) {
        let n = u64::from(cell["controller"] == "single");
        assert_eq!(cell["metrics"]["rate"]["disturbed"], n, "{cell}");
    }
}

#[test]
fn starts_that_failed_are_in_the_summary() {
    let (record, mut samples) = faulty();
    let mut of_third = samples.iter_mut().filter(|it| it.controller == "third");
    let survived = |samples: &[Sample]| {
        let page = read(&written("starts", &record, samples), "report.html");
        let (_, rows) = page.split_once("<h2>Summary</h2>").unwrap();
        rows.split("<tr>").find(|row| row.contains(">Third<")).unwrap().to_owned()
    };
    for (sample, command) in of_third.by_ref().zip(["sluice bench", "sluice bench", ""]) {
        sample.failure = Some("no handshake completes within 30 s".to_owned());
        sample.usage = None;
        sample.command = command.to_owned();
    }
    let ended = of_third.next().unwrap().usage.as_mut().unwrap();
    ended.survived = false;
    // The third of them was not tried.
    let row = survived(&samples);
    assert!(row.contains(">started in 22 of 24 samples, ended early in 1 of them<"), "{row}");
    for sample in &mut samples {
        sample.usage.iter_mut().for_each(|it| it.survived = true);
    }
    let row = survived(&samples);
    assert!(row.contains(">started in 22 of 24 samples<"), "{row}");
    assert!(!row.contains(">yes<"), "{row}");
    let report = read(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("starts"), "report.json");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let third = &report["controllers"][2];
    assert_eq!((&third["samples_tried"], &third["samples_observed"]), (&24.into(), &22.into()));
}

#[test]
fn figures_of_experiments_with_similar_names_have_files_of_their_own() {
    let renamed = |id: &str| ALL_KINDS.replace("\"lines\"\nkind", &format!("\"{id}\"\nkind"));
    let [first, second] = [renamed("b-c"), renamed("c").replace("Throughput <by>", "Answers by")];
    let record = study(vec![controller("first", "First")], &[("a", &first), ("a-b", &second)]);
    let samples = Sampler::new(7).samples(&record);
    let folder = written("names", &record, &samples);
    assert!(read(&folder, "latex/a-b-c.tex").contains("% Throughput "));
    assert!(read(&folder, "latex/a-b-c-2.tex").contains("% Answers by "));
    let all = read(&folder, "latex/all.tex");
    for name in ["a-b-c.tex", "a-b-c-2.tex", "a-bars.tex", "a-b-bars.tex"] {
        assert_eq!(all.matches(&format!("\\input{{{name}}}")).count(), 1, "{name}");
    }
    let page = read(&folder, "report.html").replace("</head>", "");
    assert_well_formed(&page.replacen("<body>", "", 1).replace("</body>\n</html>\n", ""));
    assert!(figure(&page, "a-b-c-2").contains("Answers by"));
}

#[test]
fn titles_in_other_scripts_can_be_set_by_pdflatex() {
    let controllers = vec![controller("first", "Контроллер 控制器 «Žluťoučký» --fast")];
    let record = study(controllers, &[("all-kinds", ALL_KINDS)]);
    let samples = Sampler::new(4).samples(&record);
    let folder = written("scripts", &record, &samples);
    let table = read(&folder, "latex/all-kinds-table.tex");
    let title =
        r"Kontroller {[}U+63A7{]}{[}U+5236{]}{[}U+5668{]} ``\v{Z}lu\v{t}ou\v{c}k\'{y}'' -{}-fast";
    assert!(table.contains(title), "{table}");
}

#[test]
fn the_command_that_repeats_an_experiment_names_the_folder_of_the_controllers() {
    let mut installed = controller("first", "First");
    installed.row.start.program = "{home}/first/run".to_owned();
    let mut record = study(vec![installed], &[("all-kinds", ALL_KINDS)]);
    let samples = Sampler::new(5).samples(&record);
    let page = |record: &StudyRecord| read(&written("home", record, &samples), "report.html");
    assert!(page(&record).contains("--rounds 5</code> with the option <code>--home</code>"));
    record.home = "/opt/controllers".to_owned();
    assert!(page(&record).contains("--rounds 5 --home /opt/controllers</code></dd>"));
    // Nothing is started from there.
    record.controllers[0].row.start.program = "first".to_owned();
    assert!(page(&record).contains("--rounds 5</code></dd>"));
}
