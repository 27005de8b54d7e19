import { bytes, duration } from "../shared/format.ts";

/** The groups of settings, and the names that each has; others are under `Other`. */
const groups: Readonly<Record<string, readonly string[]>> = {
  Access: [
    "auth_enabled",
    "trusted_proxies",
    "allowed_hosts",
    "cors_origins",
    "api_exec",
    "read_only",
    "admin_user",
    "admin_password",
    "hostname",
    "tls_email",
    "base_path",
    "secrets_dir",
  ],
  Ports: [
    "host",
    "port",
    "chat_port",
    "operator_host",
    "operator_port",
    "engine_pages",
    "engine_pages_port",
    "slot_ports",
  ],
  Limits: ["hold_seconds", "body_limit", "buffer_limit", "spool_limit", "drain_seconds"],
  Models: ["models_dir", "state_dir", "pull_bandwidth", "disk_reserve", "llama_server", "llama_image"],
  Logs: ["log_level", "access_log_part", "request_bodies", "traces_endpoint", "traces_part"],
  Runtimes: [
    "runtime",
    "store",
    "docker_host",
    "engine_user",
    "pod_models",
    "pod_volumes",
    "pod_labels",
    "allow_processes",
    "unrestricted_containers",
  ],
};

/** The group of a setting. */
export function groupOf(name: string): string {
  const snake = name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.entries(groups).find(([, names]) => names.includes(snake))?.[0] ?? "Other";
}

export const groupNames: readonly string[] = [...Object.keys(groups), "Other"];

/** A value for a person: sizes and times with their units, nothing as `not set`. */
export function settingText(name: string, value: unknown): string {
  if (value === null || value === undefined || value === "") return "not set";
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map(String).join(", ");
  if (typeof value === "boolean") return value ? "on" : "off";
  if (value === 0 && /bandwidth/i.test(name)) return "no limit";
  if (typeof value === "number" && /limit|reserve|bandwidth/i.test(name)) return bytes(value);
  if (typeof value === "number" && /seconds$/i.test(name)) return duration(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}
