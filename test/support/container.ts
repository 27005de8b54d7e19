import type { Container } from "../../src/api/workload.ts";

/** A container that needs nothing of its host. */
export const plainContainer: Container = {
  image: "llama@sha256:1",
  replacesEntrypoint: false,
  port: 8080,
  mounts: [],
  modelFiles: [],
  devices: [],
  isMemlockUnlimited: false,
  isRootReadOnly: true,
  hasInit: false,
  capabilities: [],
};
