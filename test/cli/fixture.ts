/** Answers of `/api` as CONTRACT's table has them, for the double. */
export const primary = {
  name: "primary",
  state: "ready",
  model: "tiny",
  engine: "llama",
  backend: "cpu",
  runtime: "process",
  port: 8081,
  endpoint: "http://127.0.0.1:8081",
  enabled: true,
  load: "always",
  in_flight: 2,
  queued: 0,
  conditions: [
    { type: "Ready", status: "True", reason: "Loaded", message: "tiny is loaded" },
    { type: "Available", status: "True", reason: "Loaded", message: "tiny is loaded" },
  ],
  generation: 3,
  observed_generation: 3,
  restarts: 1,
  failures: 0,
  last_error: null,
  next_retry_at: null,
  last_load_seconds: 0.412,
  memory_bytes: null,
  uptime_seconds: 3725,
  file: "/etc/berth/slots/primary.toml",
};

export const coder = {
  ...primary,
  name: "coder",
  state: "error",
  model: "qwen3:4b",
  port: null,
  endpoint: null,
  in_flight: 0,
  conditions: [{ type: "Ready", status: "False", reason: "CrashLoop", message: "exited with code 1" }],
  restarts: 4,
  failures: 4,
  last_error: {
    reason: "Exited",
    message: `exited with code 1: ${"failed to load model; ".repeat(5)}\nsecond line`,
    time: "2026-11-21T07:00:00.000Z",
  },
  next_retry_at: "2026-11-21T07:01:00.000Z",
  last_load_seconds: null,
  uptime_seconds: null,
};

export const slots = { object: "list", data: [primary, coder] };

export const model = {
  id: "tiny",
  size_bytes: 524_288,
  backend: "cpu",
  capabilities: ["chat"],
  license: null,
  license_url: null,
  source: "file",
  sha256: null,
  path: "/models/tiny.gguf",
  slots: ["primary"],
  state: "assigned",
};
