"""Settings of logging in to an OpenStack."""

from pathlib import Path

from pydantic import BaseModel, Field, model_validator

from kwhere.transport.settings import HttpClientSettings


class KeystoneLogin(BaseModel):
    """By a user's password or by an application credential, both from a file."""

    auth_url: str = Field(description="Address of Keystone, as https://keystone.example:5000/v3.")
    username: str | None = Field(default=None, min_length=1, description="Name of the user, with a password.")
    user_domain: str = Field(default="Default", description="Name of the user's domain.")
    project: str | None = Field(
        default=None, min_length=1, description="Name of the project the token is for; none: for the whole system."
    )
    project_domain: str = Field(default="Default", description="Name of the project's domain.")
    application_credential_id: str | None = Field(
        default=None, min_length=1, description="Id of an application credential, instead of a user."
    )
    secret_file: Path = Field(description="File with the password or the application credential's secret, one line.")
    http: HttpClientSettings = Field(
        default=HttpClientSettings(), description="Time limits, size limit and authorities for Keystone and Nova."
    )

    @model_validator(mode="after")
    def _one_way_in(self) -> "KeystoneLogin":
        if (self.username is None) == (self.application_credential_id is None):
            raise ValueError("expected one of username and application_credential_id")
        if self.http.token_file is not None:
            raise ValueError("http.token_file: a token of Keystone is made from secret_file")
        return self
