//! The routes of the API, written once and used twice: by the router that answers, and by the OpenAPI document. The program only answers, so
//! the linker drops what describes the routes: it is a quarter of the code of this crate.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::routing::MethodRouter;
use utoipa::openapi::HttpMethod;
use utoipa_axum::PathItemExt as _;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::api::ApiState;

/// A router, or an OpenAPI document, to which routes are added.
pub(crate) trait Routes: Sized {
    /// Without routes.
    fn new() -> Self;

    /// Adds what `routes!(handler, …)` returns: how the handlers are described, and how they are added to a router.
    fn routes(
        self,
        handlers: (
            impl FnOnce() -> UtoipaMethodRouter<ApiState>,
            impl FnOnce(Router<ApiState>) -> Router<ApiState>,
        ),
    ) -> Self;

    fn merge(self, other: Self) -> Self;

    /// Limits the bodies of requests for the routes that have been added so far.
    fn limit_bodies(self, bytes_max: usize) -> Self;
}

impl Routes for Router<ApiState> {
    fn new() -> Self {
        Self::new()
    }

    fn routes(
        self,
        (_, add): (impl FnOnce() -> UtoipaMethodRouter<ApiState>, impl FnOnce(Self) -> Self),
    ) -> Self {
        add(self)
    }

    fn merge(self, other: Self) -> Self {
        self.merge(other)
    }

    fn limit_bodies(self, bytes_max: usize) -> Self {
        self.layer(DefaultBodyLimit::max(bytes_max))
    }
}

impl Routes for OpenApiRouter<ApiState> {
    fn new() -> Self {
        Self::default()
    }

    fn routes(
        self,
        (describe, _): (
            impl FnOnce() -> UtoipaMethodRouter<ApiState>,
            impl FnOnce(Router<ApiState>) -> Router<ApiState>,
        ),
    ) -> Self {
        self.routes(describe())
    }

    fn merge(self, other: Self) -> Self {
        self.merge(other)
    }

    fn limit_bodies(self, _: usize) -> Self {
        self
    }
}

/// A handler for the methods of its description.
pub(crate) fn method_router<H, T>(methods: &[HttpMethod], handler: &H) -> MethodRouter<ApiState>
where
    H: Handler<T, ApiState>,
    T: 'static,
{
    let add = |router: MethodRouter<ApiState>, method: &HttpMethod| {
        router.on(method.to_method_filter(), handler.clone())
    };
    methods.iter().fold(MethodRouter::new(), add)
}

/// The argument of [`Routes::routes`]: one handler of another module, or several of this one. Each has the attribute `utoipa::path`, which adds
/// a type `__path_HANDLER` to its module.
macro_rules! routes {
    ($module:ident::$handler:ident) => {
        pastey::paste! {{
            use $module::{$handler, [<__path_ $handler>]};
            $crate::routes::routes!($handler)
        }}
    };
    ($($handler:ident),+) => {
        (
            || -> utoipa_axum::router::UtoipaMethodRouter<$crate::api::ApiState> {
                utoipa_axum::routes!($($handler),+)
            },
            |router: axum::Router<$crate::api::ApiState>| {
                pastey::paste! {
                    router$(.route(
                        &<[<__path_ $handler>] as utoipa::Path>::path(),
                        $crate::routes::method_router(
                            &<[<__path_ $handler>] as utoipa::Path>::methods(),
                            &$handler,
                        ),
                    ))+
                }
            },
        )
    };
}
pub(crate) use routes;
