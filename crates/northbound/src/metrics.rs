//! Metrics of the API itself.

use std::sync::Arc;

use sluice_base::metrics::{MetricSample, MetricValue, MetricsSource};

use crate::api::access::Access;

/// The metrics of the controller, followed by those of the API.
#[derive(Debug)]
pub(crate) struct WithApiMetrics {
    pub(crate) source: Arc<dyn MetricsSource>,
    pub(crate) access: Access,
}

impl MetricsSource for WithApiMetrics {
    fn collect(&self, emit: &mut dyn FnMut(MetricSample)) {
        self.source.collect(emit);
        let mut counter = |name, help, count| {
            emit(MetricSample { name, help, labels: vec![], value: MetricValue::Counter(count) });
        };
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
    }
}
