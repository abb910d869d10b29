// The words of the page in both languages.

const TEXTS = {
  en: {
    skip: "Skip to the content", views: "Views", search: "Search", terms: "Terms", index: "Index",
    placeholder: "Words or a question", query: "Query", hits: "{n} hits", hit: "1 hit", time: "{ms} ms", chunk: "1 chunk", chunks: "{n} chunks", document: "1 document", numDocuments: "{n} documents", noDocuments: "no chunk has a source", documents: "Documents", in: "{hits} in {documents}",
    searchIn: "Search only here", everywhere: "Only {source}: search everywhere again", completions: "What the last word may become",
    grouped: "by document", syntax: "syntax", syntaxHelp: "+word -word \"a phrase\" word^2 prefix*", allNamespaces: "all namespaces",
    defaultNamespace: "default", namespace: "Namespace", hitsWanted: "Hits", score: "Score", why: "Why this score", context: "In context", 
    term: "Term", contribution: "Contribution", queryWeight: "= query weight", chunkWeight: "× chunk weight", tf: "tf", df: "df", idf: "IDF", factors: "× factors", fields: "tf of each field", noTerm: "{terms}: not in this chunk",
    sum: "Sum", products: "Contribution = query weight × chunk weight; query weight = IDF × factors", stopWords: "Stop words, left out: {words}", length: "length {n}, N {chunks}", nothing: "Nothing found",
    didYouMean: "Did you mean {text}?", completed: "completed to: {text}", missing: "Why is a document missing?", missingHelp: "Name the source that you expected, or the id of a chunk.", expected: "Source, or id of a chunk", whyNot: "Why not found", ask: "Ask",
    start: "Type to search.", slash: ", / to search", keys: "↓ Enter to complete the word, ↑ ↓ to move, Enter to explain, Esc to return", theme: "Theme: {theme}", auto: "auto", light: "light", dark: "dark", language: "中文",
    topTerms: "Terms that most chunks have", prefix: "Beginning with", ofQuery: "Terms of the query", numChunks: "{df} of {n} chunks",
    figures: "Figures", drift: "chunk_size {n} is {ratio} times the mean length: BM25 with k1 {k1} and b {b}.",
    healthy: "That is in the range without loss, 0.8 to 4.", unhealthy: "Outside 0.8 to 4 answers get worse: rag-bm25 reindex --chunk-size {n} mends it.", ingestion: "Ingestion", noJobs: "No ingestion since the server started.",
    add: "add", ingest: "ingest", delete: "delete", running: "running", done: "done", failed: "failed", writing: "writing", N: "Chunks (N)", numTerms: "Terms", meanLength: "Mean length", weighting: "Weighting", engine: "Engine", namespaces: "Namespaces", problems: "Damage",
    answers: "Confidence", unlike: "The questions asked lately are unlike those of its calibration: calibrate again.",
    token: "Access token", tokenHelp: "This server asks for a token. It is kept for this tab.", wrongToken: "That is not the token of the server.", enter: "Enter", rank: "rank {n}",
    estimated_characters: "estimated characters", characters: "characters", terms_unit: "terms", allChunks: "All chunks of the document", more: "More: {shown} of {total} shown",
    retry: "Try again", searching: "searching …", firstHits: "first {n} hits", next: "More", before: "Earlier chunks", inChunks: "Chunks with", ofChunks: "of {n}", met: "{n} meet the conditions", metOrMore: "{n} or more meet the conditions",
    metadata: "Metadata", copy: "Copy", copied: "Copied", link: "Link", open: "Open source", page: "page {n}", confidence: "{n} % likely to answer", noNamespace: "{name}: no such namespace", forget: "Forget the token", error: "{message}", missingBecause: "{id}: {reasons}",
    error_unreachable: "The server cannot be reached.", error_busy: "The server is busy: try again.",
  },
  zh: {
    skip: "跳到正文", views: "视图", search: "检索", terms: "词", index: "索引",
    placeholder: "输入词或问题", query: "查询", hits: "{n} 个命中", hit: "1 个命中", time: "{ms} 毫秒", chunk: "1 个分块", chunks: "{n} 个分块", document: "1 个文档", numDocuments: "{n} 个文档", noDocuments: "没有分块带有来源", documents: "文档", in: "{hits}，来自 {documents}",
    searchIn: "只检索此文档", everywhere: "只检索 {source}，点击后检索全部", completions: "末词的补全",
    grouped: "按文档分组", syntax: "查询语法", syntaxHelp: "+必须 -排除 \"短语\" 词^2 前缀*", allNamespaces: "全部命名空间",
    defaultNamespace: "默认", namespace: "命名空间", hitsWanted: "命中数", score: "得分", why: "得分由来", context: "上下文", 
    term: "词", contribution: "贡献", queryWeight: "= 查询权重", chunkWeight: "× 分块权重", tf: "tf", df: "df", idf: "IDF", factors: "× 因子", fields: "各字段的 tf", noTerm: "{terms}：不在这个分块里",
    sum: "合计", products: "贡献 = 查询权重 × 分块权重；查询权重 = IDF × 因子", stopWords: "略去的停用词：{words}", length: "长度 {n}，N {chunks}", nothing: "没有找到",
    didYouMean: "你是不是要找 {text}？", completed: "已补全为：{text}", missing: "为什么没有某个文档？", missingHelp: "输入你以为会出现的文档的来源，或者分块的 id。", expected: "来源或分块的 id", whyNot: "为何没有找到", ask: "查询",
    start: "输入即检索。", slash: "，/ 输入", keys: "↓ Enter 补全末词，↑ ↓ 移动，Enter 查看得分，Esc 返回", theme: "主题：{theme}", auto: "自动", light: "浅色", dark: "深色", language: "English",
    topTerms: "出现在最多分块中的词", prefix: "以此开头的词", ofQuery: "查询中的词", numChunks: "{n} 个分块中的 {df} 个",
    figures: "概况", drift: "chunk_size {n} 是平均长度的 {ratio} 倍，相当于 k1 {k1}、b {b} 的 BM25。",
    healthy: "在没有损失的范围 0.8 到 4 之内。", unhealthy: "超出 0.8 到 4 的范围，检索质量会下降，可用 rag-bm25 reindex --chunk-size {n} 重建。", ingestion: "入库", noJobs: "服务启动以来没有入库任务。",
    add: "添加", ingest: "入库", delete: "删除", running: "进行中", done: "已完成", failed: "失败", writing: "写入中", N: "分块数（N）", numTerms: "词数", meanLength: "平均长度", weighting: "加权", engine: "引擎", namespaces: "命名空间", problems: "损坏",
    answers: "置信度", unlike: "最近的问题与校准时的不同，请重新校准。",
    token: "访问令牌", tokenHelp: "此服务需要令牌，令牌只在本标签页内保存。", wrongToken: "令牌不正确。", enter: "进入", rank: "第 {n} 位",
    estimated_characters: "估计字符数", characters: "字符数", terms_unit: "词数", allChunks: "文档的全部分块", more: "显示更多（已显示 {shown} / {total}）",
    retry: "重试", searching: "检索中……", firstHits: "前 {n} 个命中", next: "更多", before: "前面的分块", inChunks: "含有该词的分块数：", ofChunks: "共 {n} 个分块", met: "{n} 个符合条件", metOrMore: "至少 {n} 个符合条件",
    metadata: "元数据", copy: "复制", copied: "已复制", link: "链接", open: "打开来源", page: "第 {n} 页", confidence: "{n}% 可能回答了问题", noNamespace: "{name}：没有此命名空间", forget: "忘记令牌", error: "请求失败：{message}", missingBecause: "没有找到 {id}：{reasons}",
    error_unreachable: "无法连接服务。", error_busy: "服务繁忙，请稍后再试。", error_timeout: "请求超时：请减少命中数，或稍后再试。", error_stopping: "服务正在停止，请稍后再试。", error_out_of_scope: "令牌无权访问此命名空间。", error_read_only: "此服务只读。",
    error_index_gone: "索引在服务运行期间被删除，请重新启动服务。", error_index_failed: "暂时无法访问索引，请稍后再试。", error_internal: "服务内部出错，详见服务的日志。", error_not_found: "没有找到这个来源或分块。", error_answer_too_large: "结果太大，请减少命中数。",
    error_wrong_token: "令牌不正确。", error_wrong_host: "服务不认这个主机名，可用 --allow-host 加入。", error_wrong_origin: "服务不接受其他网站的请求，可用 --allow-origin 加入。", error_wrong_type: "请求的内容类型不对。", error_body_too_large: "请求太大。",
    reason_empty_query: "查询里没有要检索的词。", reason_stop_words: "查询里只有停用词，索引略去了它们：{words}。", reason_no_words: "查询里没有词：标点和过长的词不进入索引。", reason_damage: "索引的统计数据已损坏，请运行 rag-bm25 repair。",
    reason_empty_index: "索引里没有分块。", reason_empty_namespace: "此命名空间里没有分块，其他命名空间里有。", reason_unknown_words: "没有分块含有查询中的词。", reason_within_words: "没有分块把 {words} 用作单独的词，它只出现在其他词中。", reason_no_chunk: "没有分块使用这个 id。", reason_no_term: "它不含查询中的任何词。",
    reason_k: "它按得分排在所示的命中之后。", reason_group: "同一文档的其他命中已经占满了这一组。", reason_filter: "它被条件过滤排除了。", reason_filter_met: "有 {met} 个分块符合条件过滤，但其中没有命中。", reason_filter_met_or_more: "至少有 {met} 个分块符合条件过滤，但其中没有命中。", reason_filter_field: "没有分块带有过滤所用的字段：{missing}。", reason_must: "它缺少必须含有的词。", reason_must_not: "它含有被排除的词。", reason_phrases: "它不含所要求的短语。",
    reason_min_score: "得分低于所设的最低得分。", reason_min_confidence: "置信度低于所设的最低值。", reason_min_should_match: "含有的查询词少于所要求的个数。", reason_statistics: "只按符合条件的分块统计时，没有命中。", reason_boosts: "得分规则（boosts）排除了它。",
    reason_search_params: "引擎的检索参数（search_params）排除了它。", reason_rerank: "重排之后，它在所示的命中之后。", reason_diversity: "它与前面的命中太相似，被略去。",
    reason_options: "几个检索条件合在一起排除了它：{options}。",
  },
};

const KEPT = "rag_bm25.language";
let language = localStorage.getItem(KEPT) ?? (navigator.language.startsWith("zh") ? "zh" : "en");

/** Return the language of the page, "en" or "zh". */
export function languageNow() {
  return language;
}

export function switchLanguage() {
  language = language === "en" ? "zh" : "en";
  localStorage.setItem(KEPT, language);
}

/** Return whether the page has a text of its own. */
export function hasText(name) {
  return Object.hasOwn(TEXTS[language], name);
}

/** Return a text of the page, with numbers written as the language does. */
export function t(name, values = {}) {
  return TEXTS[language][name].replace(/\{(\w+)\}/g, (_, key) => format(values[key]));
}

/** Write a number with as many decimals as others, so that columns align. */
export function fixed(value, digits = 2) {
  return new Intl.NumberFormat(language, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
}

/** Write a number in the language of the page. */
export function format(value, digits = 3) {
  if (typeof value !== "number") return String(value);
  return new Intl.NumberFormat(language, { maximumFractionDigits: digits }).format(value);
}
