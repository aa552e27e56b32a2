//! Who has a token.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::ApiState;
use crate::routes::{Routes, routes};
use crate::tokens::{Role, Token};

#[derive(Serialize, ToSchema)]
struct TokensDocument {
    tokens: Vec<TokenDocument>,
}

/// A token, without its value, which nobody knows but its owner.
#[derive(Serialize, ToSchema)]
struct TokenDocument {
    name: String,
    role: Role,
    created_unix_s: u64,
    expires_unix_s: Option<u64>,
}

impl From<Token> for TokenDocument {
    fn from(token: Token) -> Self {
        let Token { name, role, created_unix_s, expires_unix_s, .. } = token;
        Self { name, role, created_unix_s, expires_unix_s }
    }
}

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(tokens))
}

/// The tokens that are accepted or have expired.
#[utoipa::path(get, path = "/v1/tokens", responses((status = 200, body = TokensDocument)))]
async fn tokens(State(state): State<ApiState>) -> Json<TokensDocument> {
    let tokens = state.access.tokens().into_iter().map(Into::into).collect();
    Json(TokensDocument { tokens })
}
