"""Keys of model providers that an administrator enters on a page: sealed in the database, opened where turns run."""
