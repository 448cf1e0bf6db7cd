# An image with one static program and nothing else. `make images` builds those of flotilla-hub and flotilla-agent.
FROM scratch
ARG PROGRAM
COPY ${PROGRAM} /program
USER 65532:65532
ENTRYPOINT ["/program"]
