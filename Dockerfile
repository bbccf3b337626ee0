# Two stages: what installs does not run, what runs is slim and has no root.
# Images by digest: docs/operations.md says how to take newer ones.
FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7 AS build
WORKDIR /app
# Extras of pyproject.toml to install as well, such as "saml observe".
ARG MHB_EXTRAS=""
COPY requirements.txt requirements-dev.txt requirements-uv.txt pyproject.toml ./
RUN python -m venv /venv \
    && /venv/bin/pip install --quiet --no-cache-dir --require-hashes -r requirements-uv.txt \
    && VIRTUAL_ENV=/venv /venv/bin/uv pip install --quiet --no-cache --require-hashes -r requirements.txt \
    && for extra in $MHB_EXTRAS; do VIRTUAL_ENV=/venv /venv/bin/uv pip install --quiet --no-cache --require-hashes \
       -c requirements-dev.txt -r pyproject.toml --extra "$extra" || exit 1; done
COPY . .
RUN /venv/bin/pybabel --quiet compile --domain django --directory mhb_site/locale \
    && MHB_DATA_DIR=/data MHB_DATABASE_URL=postgresql://build/build MHB_SECRET_KEY=only-while-the-image-is-being-built MHB_HTTPS=false \
       /venv/bin/python manage.py collectstatic --noinput --verbosity 0 \
    && chmod -R u=rwX,go=rX /app

FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 MHB_DATA_DIR=/data
RUN useradd --uid 10001 --create-home mhb && install -d -o mhb -g mhb /data
COPY --from=build /venv /venv
COPY --from=build /app /app
WORKDIR /app
USER mhb
VOLUME /data
EXPOSE 8000
CMD ["gunicorn", "mhb_site.wsgi", "--bind", "0.0.0.0:8000", "--workers", "2"]
