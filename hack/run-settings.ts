import { Stop } from "./run-stop.ts";

const runtimes: readonly (string | undefined)[] = [undefined, "", "auto", "process", "docker"];

/** Refuses settings that `make run` would ignore. Throws Stop. */
export function checkSettings(env: NodeJS.ProcessEnv): void {
  for (const name of ["SVC_PORT", "SVC_OPERATOR_PORT"] as const) {
    const text = env[name] || undefined;
    const port = Number(text ?? 1);
    if (!Number.isInteger(port) || port < 1 || port > 65_535)
      throw new Stop(`${name}=${text ?? ""} is not a port; choose one from 1024 to 65535`);
  }
  const runtime = env["SVC_RUNTIME"];
  if (!runtimes.includes(runtime))
    throw new Stop(
      `SVC_RUNTIME=${runtime ?? ""} is nothing that make run has; leave it out for processes, or use ` +
        "SVC_RUNTIME=docker for Docker or Podman",
    );
}

/** The line of shell after which `bin/berth` in another terminal reaches this instance; undefined: none is needed. */
export function exportLine(ports: { readonly port: number; readonly operatorPort: number }): string | undefined {
  const words = [
    ...(ports.port === 8080 ? [] : [`SVC_PORT=${ports.port}`]),
    ...(ports.operatorPort === 8079 ? [] : [`SVC_OPERATOR_PORT=${ports.operatorPort}`]),
  ];
  return words.length === 0 ? undefined : `export ${words.join(" ")}`;
}
