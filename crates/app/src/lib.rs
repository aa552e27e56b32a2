//! What an application is: its ears, and what it can say.
