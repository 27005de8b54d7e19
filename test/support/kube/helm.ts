import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ApiServer } from "./control-plane.ts";

export const chartDirectory = fileURLToPath(new URL("../../../charts/berth", import.meta.url));

/** Helm on that cluster, with everything that it keeps in the cluster's directory. Resolves with its standard output. */
export async function helm(
  plane: Pick<ApiServer, "directory" | "kubeconfig">,
  args: readonly string[],
  values?: object,
  variable: "BERTH_TEST_HELM" | "BERTH_TEST_HELM4" = "BERTH_TEST_HELM",
): Promise<string> {
  const program = process.env[variable];
  if (program === undefined)
    throw new Error(`run this by \`make test-k8s\`, or set ${variable} to helm or helm4 in $(hack/kube.sh)`);
  const home = join(plane.directory, "helm");
  const env = { ...process.env, HOME: home, HELM_CACHE_HOME: home, HELM_CONFIG_HOME: home, HELM_DATA_HOME: home };
  const given = values === undefined ? [] : ["--values", "-"];
  return await new Promise((resolve, reject) => {
    const child = execFile(
      program,
      [`--kubeconfig=${plane.kubeconfig}`, ...args, ...given],
      { maxBuffer: 64 * 1024 * 1024, env },
      (error, stdout, stderr) =>
        error === null ? resolve(stdout) : reject(new Error(`${stderr}${stdout}`, { cause: error })),
    );
    child.stdin?.end(values === undefined ? "" : JSON.stringify(values));
  });
}
