"""Models of the API's requests and answers: one module per resource; `common` has shared models."""
