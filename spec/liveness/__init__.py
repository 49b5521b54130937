"""What must happen in the end, checked on every fair path of bounded scopes."""
