import type { Page } from "playwright-core";
import { list, record } from "../support/openai.ts";
import { until } from "../support/until.ts";

/** Chooses an action of the menu that the conversation with that title has in the list. */
export async function fromMenu(
  page: Page,
  title: string,
  action: "Rename" | "Pin" | "Unpin" | "Export" | "Delete",
): Promise<void> {
  await page.getByRole("button", { name: `More for ${title}`, exact: true }).click();
  await page.getByRole("menuitem", { name: action, exact: true }).click();
}

/** Opens the parameters, has `act` see their dialog, and closes them. */
export async function withParameters(page: Page, act: () => Promise<void>): Promise<void> {
  await page.getByRole("button", { name: "Parameters" }).click();
  const dialog = page.getByRole("dialog", { name: "Parameters" });
  await dialog.waitFor();
  await act();
  await dialog.getByRole("button", { name: "Close" }).click();
  await dialog.waitFor({ state: "detached" });
}

/** Reads a path of the API. */
type Get = (path: string) => Promise<unknown>;

/** The conversation with that title, as the server has kept it; without fields where it has none. */
export async function keptConversation(get: Get, title: string): Promise<Record<string, unknown>> {
  const heads = list(record(await get("/api/conversations"))["data"]);
  const head = heads.find((each) => each["title"] === title);
  return head === undefined ? {} : record(await get(`/api/conversations/${String(head["id"])}`));
}

/** The messages of that conversation. */
export async function keptMessages(get: Get, title: string): Promise<readonly Record<string, unknown>[]> {
  return list((await keptConversation(get, title))["messages"] ?? []);
}

/**
 * Waits until the page knows that the server has kept all its texts, which it learns a moment later: until then it does
 * not read them from the server, and has the browser ask before it goes.
 */
export async function knowsAllKept(page: Page): Promise<void> {
  const mayGo = `dispatchEvent(new Event("beforeunload", { cancelable: true }))`;
  await until("the page knows that all is kept", async () => await page.evaluate<boolean>(mayGo));
}
