import type { Command } from "commander";
import type { CommandContext } from "../../cli/context.ts";
import { whole, withExamples } from "../../cli/options.ts";

/** `berth cluster`: the two steps of an installation in a cluster that Helm cannot do by itself. */
export function addClusterCommands(program: Command, { env, write }: CommandContext): void {
  const cluster = program.command("cluster").description("an installation in a Kubernetes cluster");
  const kinds = cluster
    .command("apply-kinds")
    .description("write this version's CRDs into the cluster, and wait until they are served")
    .action(async () => {
      const { applyKinds } = await import("./apply-kinds.ts");
      const { withCluster } = await import("./with-cluster.ts");
      await withCluster(env, (client) => applyKinds(client, write));
    });
  withExamples(kinds, ["berth cluster apply-kinds", "before an upgrade; `helm upgrade` runs it"]);
  const release = cluster
    .command("release")
    .description("delete slots, stop the operator, and remove what would keep other slots from being deleted")
    .option("--selector <labels>", "labels of the slots to delete; absent: none is deleted")
    .option("--deployment <name>", "the operator's Deployment, scaled to 0; absent: none")
    .option("--seconds <number>", "longest wait for the slots, for the operator, and for the other slots", whole, 120)
    .action(async (options: { selector?: string; deployment?: string; seconds: number }) => {
      const { releaseCluster } = await import("../../store/open-cluster.ts");
      const { withCluster } = await import("./with-cluster.ts");
      await withCluster(env, (client) => releaseCluster(client, { ...options, write }));
    });
  withExamples(
    release,
    [
      "berth cluster release --deployment berth-operator",
      "before the operator goes for good; `helm uninstall` runs it",
    ],
    ["berth cluster release", "where the operator has gone, and Slots cannot be deleted any more"],
  );
}
