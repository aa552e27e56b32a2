//! Plays switches against any controller and measures its answers.
