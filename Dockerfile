# One image for every role; docker-compose.yml names the roles.
FROM python:3.11-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 steerweb \
    && install -d -o steerweb -g steerweb /data
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --constraint requirements.lock . && rm -rf /src/*

USER steerweb
WORKDIR /data
ENV STEERWEB_DATA=/data PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 8000
ENTRYPOINT ["steerweb"]
CMD ["web", "--host", "0.0.0.0"]
