//! Metrics of the API itself.

use std::sync::Arc;

use sluice_base::metrics::{MetricSample, MetricValue, MetricsSource};

use crate::api::access::Access;
use crate::api::reads::Reads;

/// The metrics of the controller, followed by those of the API.
#[derive(Debug)]
pub(crate) struct WithApiMetrics {
    pub(crate) source: Arc<dyn MetricsSource>,
    pub(crate) access: Access,
    pub(crate) reads: Arc<Reads>,
}

impl MetricsSource for WithApiMetrics {
    fn collect(&self, emit: &mut dyn FnMut(MetricSample)) {
        self.source.collect(emit);
        let mut counter = |name, help, count| {
            emit(MetricSample { name, help, labels: vec![], value: MetricValue::Counter(count) });
        };
        let reads = self.reads.usage();
        counter(
            "api_requests_refused",
            "Requests to the API without a token, with a wrong one, or without the role that they need",
            self.access.refused(),
        );
        counter(
            "api_audit_lines_lost",
            "Lines of the audit log that could not be written",
            self.access.audit_lost(),
        );
        counter(
            "api_live_reads_refused",
            "Reads of switches that clients of the API were refused since they had waited too long for others",
            reads.refused,
        );
        let mut gauge = |name, help, count: usize| {
            let value = MetricValue::Gauge(u32::try_from(count).unwrap_or(u32::MAX).into());
            emit(MetricSample { name, help, labels: vec![], value });
        };
        gauge(
            "api_live_reads_waiting",
            "Reads of switches for clients of the API that wait for others",
            reads.waiting,
        );
        gauge(
            "api_live_reads_in_progress",
            "Reads of switches for clients of the API that wait for the switch",
            reads.queries + reads.deletions,
        );
    }
}
