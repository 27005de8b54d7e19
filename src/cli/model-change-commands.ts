import type { Command } from "commander";
import { CommandError } from "./client.ts";
import type { CommandContext } from "./context.ts";
import { outputOption, whole, withExamples, type Shown } from "./options.ts";
import type { SlotRequest } from "./slot-requests.ts";

/** The commands that download models, remove them, and assign them to slots. */
export function addModelChangeCommands(model: Command, context: CommandContext): void {
  const catalog = model
    .command("catalog")
    .description("curated models, and whether they fit this machine")
    .addOption(outputOption())
    .action(async ({ output }: Shown) => {
      const { catalogTable } = await import("./models.ts");
      context.write(await catalogTable(await context.client(), output));
    });
  withExamples(catalog, ["berth model catalog -o wide", "with the sum behind each verdict, and how to check it"]);
  const pull = model
    .command("pull")
    .description("fetch a model, and show how far it is; what has come stays when it breaks off")
    .argument(
      "<model>",
      "a model of the catalogue or of a manifest (qwen3-4b, qwen3:4b), a repository of the hub (owner/name[:Q4_K_M]), the address of its page, or a source: hf://owner/name/file.gguf[@revision], https://…",
    )
    .option("--detach", "do not stay until it is there", false)
    .option("--accept-license", "take a licence that has to be accepted", false)
    .action(async (what: string, { detach, acceptLicense }: { detach: boolean; acceptLicense: boolean }) => {
      const { pull: run } = await import("./pulls.ts");
      const following = { isDetached: detach, screen: context.screen };
      const body = { model: what, ...(acceptLicense ? { accept_license: true } : {}) };
      try {
        context.write(await run(await context.client(), body, following));
      } catch (error) {
        const { choicesText } = await import("./model-choices.ts");
        const text = await choicesText(what, error);
        if (text === undefined) throw error;
        context.note(text);
        context.exit(2);
      }
    });
  withExamples(
    pull,
    ["berth model pull qwen3:4b", "the model of that family and size in the catalogue, with its progress"],
    ["berth model pull owner/name", "the only model of a repository, or a table of those that it has"],
    ["berth model pull owner/name:Q4_K_M", "the model of that quantisation; or give the address of the file's page"],
  );
  const verify = model
    .command("verify")
    .description("read the files of a model that was fetched, or whose sha256 its manifest names, and compare them")
    .argument("<ref>", "the model")
    .action(async (ref: string) => {
      const { verify: run } = await import("./pulls.ts");
      context.write(await run(await context.client(), ref, context.screen));
    });
  withExamples(verify, ["berth model verify qwen3-4b", "after a disk has had errors, say"]);
  const assign = model
    .command("assign")
    .description("have a slot hold a model")
    .argument("<ref>", "the model")
    .argument("<slot>", "name of the slot")
    .option("--wait", "go on until it is done, and say what is waited for")
    .option("--timeout <seconds>", "with --wait: how long at most", whole, 180)
    .action(async (ref: string, slot: string, { wait, timeout }: { wait?: true; timeout: number }) => {
      const { request } = await import("./slot-requests.ts");
      const wanted: SlotRequest = {
        slot,
        send: (client, query) =>
          client.one("POST /api/models/{ref}/assign", "state", { params: { ref }, query, body: { slot } }),
        said: `swap to ${ref} requested`,
      };
      const waiting = { timeoutSeconds: wait === true ? timeout : undefined, screen: context.screen };
      context.write(await request(await context.client(), wanted, waiting));
    });
  withExamples(assign, [
    "berth model assign qwen3-4b primary --wait",
    "the same as `berth slot swap primary qwen3-4b`",
  ]);
  const remove = model
    .command("rm")
    .description("remove a model from the registry")
    .argument("<ref>", "the model")
    .option("--force", "also where a slot holds it", false)
    .option("--files", "delete its files, too", false)
    .option("-y, --yes", "do not ask about the files")
    .action(async (ref: string, { force, files, yes }: { force: boolean; files: boolean; yes?: true }) => {
      if (files && yes !== true) {
        const { confirm } = await import("./terminal.ts");
        const { removalQuestion } = await import("./model-files.ts");
        if (context.input().isTTY !== true) remove.error("error: --yes is needed where nobody can be asked");
        const question = await removalQuestion(await context.client(), ref, force);
        if (!(await confirm(question, context.input(), context.screen)))
          throw new CommandError("cancelled", `model ${ref} stays`, undefined);
      }
      const { removeModel } = await import("./model-files.ts");
      context.write(await removeModel(await context.client(), ref, { force, files }));
    });
  withExamples(remove, ["berth model rm qwen3-4b --files", "says how many bytes it deletes, and asks before"]);
  addFileCommands(model, context);
}

function addFileCommands(model: Command, context: CommandContext): void {
  const scan = model
    .command("scan")
    .description("look for models that nothing declares, and show the manifests for them")
    .argument("[directories...]", "directories on the service's machine; without one: the models directory")
    .option("--write", "write a manifest for each new model", false)
    .addOption(outputOption())
    .action(async (directories: string[], { write, output }: Shown & { write: boolean }) => {
      const { scanTable } = await import("./model-files.ts");
      context.write(await scanTable(await context.client(), { directories, write }, output));
    });
  withExamples(
    scan,
    ["berth model scan", "what is in the models directory, and what each file is"],
    ["berth model scan /srv/models --write", "declares every model found there; needs SVC_API_EXEC=1"],
  );
  const gc = model
    .command("gc")
    .description("delete fetched files that no model needs, and partial files that no pull needs")
    .option("--dry-run", "delete nothing, and list what would be", false)
    .addOption(outputOption())
    .action(async ({ dryRun, output }: Shown & { dryRun: boolean }) => {
      const { collectTable } = await import("./model-files.ts");
      context.write(await collectTable(await context.client(), dryRun, output));
    });
  withExamples(gc, ["berth model gc --dry-run", "each file with its size, and the sum"]);
}
