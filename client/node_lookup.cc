#include "client/node_lookup.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace spillway::client {

absl::StatusOr<v1::ListNodesResponse> ListAllNodes(Api& api, bool include_gone) {
  v1::ListNodesResponse all;
  v1::ListNodesRequest request;
  request.set_include_gone(include_gone);
  request.set_page_size(static_cast<int>(limits::kPageSizeMax));
  do {
    ASSIGN_OR_RETURN(v1::ListNodesResponse page, api.ListNodes(request));
    for (v1::Node& node : *page.mutable_nodes()) all.mutable_nodes()->Add(std::move(node));
    all.set_next_page_token(page.next_page_token());
    request.set_page_token(page.next_page_token());
  } while (!all.next_page_token().empty() && all.nodes_size() < kNodesMax);
  return all;
}

absl::StatusOr<v1::Node> FindNode(Api& api, const std::string& name_or_id) {
  ASSIGN_OR_RETURN(const v1::ListNodesResponse all, ListAllNodes(api, true));
  int64_t id = 0;
  const bool number = absl::SimpleAtoi(name_or_id, &id);
  const v1::Node* found = nullptr;
  std::vector<std::string> names;
  for (const v1::Node& node : all.nodes()) {
    names.push_back(node.name());
    if (node.name() != name_or_id && !(number && node.node_id() == id)) continue;
    const bool gone = node.state() == v1::RELEASED || node.state() == v1::LOST;
    const bool found_gone = found != nullptr && (found->state() == v1::RELEASED || found->state() == v1::LOST);
    if (found == nullptr || (found_gone && !gone) || (found_gone == gone && node.node_id() > found->node_id())) found = &node;
  }
  if (found != nullptr) return *found;
  const std::string nearest = NearestName(name_or_id, names);
  return absl::NotFoundError(absl::StrCat("no node is called `", Printable(name_or_id, 60), "`",
                                          nearest.empty() ? "" : absl::StrCat(", did you mean `", Printable(nearest, 60), "`?")));
}

}  // namespace spillway::client
