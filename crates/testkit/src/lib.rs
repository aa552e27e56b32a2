//! Transcripts and network assertions, for tests only.
