"""`kwhere manifests`: print what a Kubernetes cluster needs to run the roles."""

from pathlib import Path

import click

from kwhere.core.errors import ConfigError
from kwhere.manifests.parts import PARTS, Site, render


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(tuple(PARTS)))
@click.option("--image", help="Image with kwhere in it, as `make image` builds it")
@click.option("--cluster", help="What the cluster is called in the account")
@click.option("--namespace", default="kwhere", show_default=True, help="Namespace that everything is put into")
@click.option("--own-manager", is_flag=True, help="Leave the server's resource manager to site.yaml")
@click.option("--control-plane", multiple=True, help="Address or network of API servers, for the webhook; repeatable")
@click.option("--ca-file", type=click.Path(path_type=Path), help="Authority of the webhook's certificate, in PEM")
@click.option("--host", help="Host name of the pages behind Kubeflow's gateway")
@click.option("--proxy-secret-file", type=click.Path(path_type=Path), help="Secret that Kubeflow's gateway shows")
def manifests(
    parts: tuple[str, ...],
    image: str | None,
    cluster: str | None,
    namespace: str,
    *,
    own_manager: bool,
    control_plane: tuple[str, ...],
    ca_file: Path | None,
    host: str | None,
    proxy_secret_file: Path | None,
) -> int:
    """Print manifests of Kubernetes, for `kubectl apply -f -`. Without PARTS say which there are.

    A part that needs an option says so. What a site changes goes into its own ConfigMaps (`kwhere-agent-site`,
    `kwhere-server-site`), so that manifests can be printed anew.
    """
    if not parts:
        width = max(map(len, PARTS))
        click.echo("\n".join(f"{part:{width}}  {text}" for part, text in PARTS.items()))
        return 0
    secret = _read(proxy_secret_file, "--proxy-secret-file")
    site = Site(
        namespace=namespace,
        image=image,
        cluster=cluster,
        control_plane=control_plane,
        has_manager=not own_manager,
        ca=_read(ca_file, "--ca-file"),
        host=host,
        proxy_secret=None if secret is None else secret.decode("ascii", "replace").strip(),
    )
    click.echo(render(parts, site), nl=False)
    return 0


def _read(file: Path | None, option: str) -> bytes | None:
    try:
        return None if file is None else file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{option}: {file}: {error.strerror}") from error
