// The page that is measured: that of the binary, or with PAGE=DIR the one in a folder, such as web/dist.
import { existsSync } from "node:fs";
import { join } from "node:path";

const folder = process.env.PAGE;

/** Has a context of Chromium load the page that is measured; the API is that of the controller. */
export async function usePage(context) {
  if (folder === undefined) return;
  await context.route(
    (url) => !url.pathname.startsWith("/v1"),
    (route) => {
      const { pathname } = new URL(route.request().url());
      const path = join(folder, pathname === "/" ? "index.html" : pathname);
      return existsSync(path) ? route.fulfill({ path }) : route.fulfill({ status: 404 });
    },
  );
}
